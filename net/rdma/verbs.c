#include "net/rdma/verbs.h"

#include "core/base/assert.h"
#include "core/os/library.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

/* The functions that are used, in the order of their names: F(result, name, parameters, arguments). The
 * definitions below are compared with the headers by the compiler. Some are called by inline functions of the
 * headers alone. */
/* clang-format off */
#define VERBS_FUNCTIONS(F) \
    F(void, ibv_ack_async_event, (struct ibv_async_event *event), (event)) \
    F(void, ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int nevents), (cq, nevents)) \
    F(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context), (context)) \
    F(int, ibv_close_device, (struct ibv_context *context), (context)) \
    F(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *context), (context)) \
    F(struct ibv_cq *, ibv_create_cq, \
      (struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, \
       int comp_vector), \
      (context, cqe, cq_context, channel, comp_vector)) \
    F(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *init), (pd, init)) \
    F(int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd)) \
    F(int, ibv_dereg_mr, (struct ibv_mr *mr), (mr)) \
    F(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *channel), (channel)) \
    F(int, ibv_destroy_cq, (struct ibv_cq *cq), (cq)) \
    F(int, ibv_destroy_qp, (struct ibv_qp *qp), (qp)) \
    F(const char *, ibv_event_type_str, (enum ibv_event_type event), (event)) \
    F(void, ibv_free_device_list, (struct ibv_device **list), (list)) \
    F(int, ibv_get_async_event, (struct ibv_context *context, struct ibv_async_event *event), \
      (context, event)) \
    F(int, ibv_get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context), \
      (channel, cq, cq_context)) \
    F(struct ibv_device **, ibv_get_device_list, (int *num_devices), (num_devices)) \
    F(const char *, ibv_get_device_name, (struct ibv_device *device), (device)) \
    F(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask), \
      (qp, attr, attr_mask)) \
    F(struct ibv_context *, ibv_open_device, (struct ibv_device *device), (device)) \
    F(int, ibv_query_device, (struct ibv_context *context, struct ibv_device_attr *device_attr), \
      (context, device_attr)) \
    F(int, ibv_query_gid, \
      (struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid), \
      (context, port_num, index, gid)) \
    F(ssize_t, _ibv_query_gid_table, \
      (struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags, \
       size_t entry_size), \
      (context, entries, max_entries, flags, entry_size)) \
    F(int, ibv_query_port, \
      (struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *port_attr), \
      (context, port_num, port_attr)) \
    F(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access), \
      (pd, addr, length, access)) \
    F(struct ibv_mr *, ibv_reg_mr_iova2, \
      (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access), \
      (pd, addr, length, iova, access)) \
    F(const char *, ibv_wc_status_str, (enum ibv_wc_status status), (status))

#define CM_FUNCTIONS(F) \
    F(int, rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *conn_param), (id, conn_param)) \
    F(int, rdma_ack_cm_event, (struct rdma_cm_event *event), (event)) \
    F(int, rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *addr), (id, addr)) \
    F(int, rdma_connect, (struct rdma_cm_id *id, struct rdma_conn_param *conn_param), (id, conn_param)) \
    F(struct rdma_event_channel *, rdma_create_event_channel, (void), ()) \
    F(int, rdma_create_id, \
      (struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps), \
      (channel, id, context, ps)) \
    F(void, rdma_destroy_event_channel, (struct rdma_event_channel *channel), (channel)) \
    F(int, rdma_destroy_id, (struct rdma_cm_id *id), (id)) \
    F(int, rdma_disconnect, (struct rdma_cm_id *id), (id)) \
    F(int, rdma_establish, (struct rdma_cm_id *id), (id)) \
    F(const char *, rdma_event_str, (enum rdma_cm_event_type event), (event)) \
    F(void, rdma_free_devices, (struct ibv_context **list), (list)) \
    F(int, rdma_get_cm_event, (struct rdma_event_channel *channel, struct rdma_cm_event **event), \
      (channel, event)) \
    F(struct ibv_context **, rdma_get_devices, (int *num_devices), (num_devices)) \
    F(__be16, rdma_get_src_port, (struct rdma_cm_id *id), (id)) \
    F(int, rdma_init_qp_attr, (struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask), \
      (id, qp_attr, qp_attr_mask)) \
    F(int, rdma_listen, (struct rdma_cm_id *id, int backlog), (id, backlog)) \
    F(int, rdma_reject, (struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len), \
      (id, private_data, private_data_len)) \
    F(int, rdma_resolve_addr, \
      (struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms), \
      (id, src_addr, dst_addr, timeout_ms)) \
    F(int, rdma_resolve_route, (struct rdma_cm_id *id, int timeout_ms), (id, timeout_ms)) \
    F(int, rdma_set_option, \
      (struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen), \
      (id, level, optname, optval, optlen))
/* clang-format on */

#define POINTER(result, name, parameters, arguments) __typeof__(name) *(name);
static struct {
    VERBS_FUNCTIONS(POINTER)
    CM_FUNCTIONS(POINTER)
} opened;

#define ENTRY(result, name, parameters, arguments) {#name, offsetof(__typeof__(opened), name), false},
static const gw_library_function verbs_functions[] = {VERBS_FUNCTIONS(ENTRY)};
static const gw_library_function cm_functions[] = {CM_FUNCTIONS(ENTRY)};

/* Each function has its own name here, so that callers and the headers' inline functions need no change. The
 * names are hidden from the libraries, which call each other by them. A name in parentheses is not taken for
 * a macro of the headers. */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameters and arguments are in parentheses already. */
#define FORWARD(result, name, parameters, arguments)                                                         \
    __attribute__((visibility("hidden"))) result(name) parameters {                                          \
        GW_ASSERT((opened.name) != NULL);                                                                    \
        return (opened.name)arguments;                                                                       \
    }
VERBS_FUNCTIONS(FORWARD)
CM_FUNCTIONS(FORWARD)
/* NOLINTEND(bugprone-macro-parentheses) */

static struct {
    bool good;
    gw_err trouble;
} result;

static void open_both(void) {
    static const char *const folders[] = {NULL};
    gw_library_wanted wanted = {.file = "libibverbs.so.1",
                                .variable = "GODWIT_IBVERBS",
                                .folders = folders,
                                .advice =
                                    "for RDMA install the package libibverbs1, and the card's driver for it "
                                    "(ibverbs-providers)",
                                .functions = verbs_functions,
                                .function_count = sizeof verbs_functions / sizeof verbs_functions[0]};
    char path[GW_LIBRARY_PATH];
    result.good = gw_library_open(&wanted, &opened, path, &result.trouble);
    if (!result.good) return;
    wanted.file = "librdmacm.so.1";
    wanted.variable = "GODWIT_RDMACM";
    wanted.advice = "for RDMA install the package librdmacm1";
    wanted.functions = cm_functions;
    wanted.function_count = sizeof cm_functions / sizeof cm_functions[0];
    result.good = gw_library_open(&wanted, &opened, path, &result.trouble);
}

bool gw_verbs_open(gw_err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_both);
    if (!result.good) *err = result.trouble;
    return result.good || gw_fail_in(err, "net/rdma");
}
