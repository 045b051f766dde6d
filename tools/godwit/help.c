#include "tools/godwit/help.h"

void gw_help_print(FILE *out) {
    fputs("Godwit runs one job on a flock of identical peers and ends with the same bytes\n"
          "whatever dies on the way.\n"
          "\n"
          "  godwit run JOB [OPTION...]   run one peer: digits, gpt, synthetic, ./mine.so\n"
          "  godwit status [--dir DIR]    what the peer that runs in DIR knows\n"
          "  godwit stop [--dir DIR]      stop the whole job, checkpoint first\n"
          "  godwit force-view [--dir DIR]  go on without a majority (the others are lost)\n"
          "  godwit keygen FILE           write a cluster key\n"
          "  godwit inspect DIR|MANIFEST  what a directory's checkpoints hold\n"
          "  godwit export DIR --to FILE  a trained gpt as safetensors, for transformers\n"
          "  godwit generate DIR          let a trained gpt go on with a text\n"
          "  godwit plot FILE             draw the metrics of a run (run --metrics FILE)\n"
          "  godwit devices               RDMA devices, and what they miss\n"
          "  godwit sim [OPTION...]       the same protocol on simulated, failing networks\n"
          "  godwit bench WHAT            measure: allreduce, steal, aead, digits, ...\n"
          "\n"
          "  godwit COMMAND --help        the options of a command\n"
          "  godwit --version\n"
          "\n"
          "Two peers on this machine:\n"
          "  godwit run digits --dir a\n"
          "  godwit run digits --dir b --listen 127.0.0.1:0 --join 127.0.0.1:7117\n"
          "\n"
          "Exit codes: 0 done, 1 failed, 2 the command line makes no sense.\n",
          out);
}
