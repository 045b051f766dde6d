/* `godwit plot` draws what `godwit run --metrics` wrote, by means of gnuplot. */
#include "core/os/output.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/metrics/table.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* curves of at most so many points show each point */
enum { FILES = 16, KEYS = 16, FEW = 60, BLOCK = 1 << 16 };
/* bytes of a picture's name, which leave room for what its file is called until it is complete */
enum { LONGEST_NAME = 200 };

typedef struct arguments {
    const char *program;
    char **files;
    uint32_t file_count;
    const char *output; /* NULL: named after the first file */
    char *y;
    gw_metrics_range range;
} arguments;

enum { KEY_X = 256, KEY_Y, KEY_LOG, KEY_FROM, KEY_TO };

static const struct argp_option plot_options[] = {
    {"output", 'o', "FILE", 0,
     "The picture to write: .png or .svg (of loss.csv: loss.png here; of a.csv and b.csv: a-and-b.png)", 0},
    {"x", KEY_X, "KEY", 0, "The horizontal axis: step, tokens, time, ... (step)", 0},
    {"y", KEY_Y, "KEY,..", 0,
     "The columns to draw (loss, val_loss and test_loss, or all that the job reports)", 0},
    {"from", KEY_FROM, "STEP", 0, "Leave out the steps before this one", 0},
    {"to", KEY_TO, "STEP", 0, "Leave out the steps after this one", 0},
    {"log", KEY_LOG, 0, 0, "Make the vertical axis logarithmic", 0},
    {0},
};

static const char plot_doc[] =
    "Draws the metrics of one or several runs (godwit run --metrics FILE), .csv or .jsonl.\v"
    "A KEY is the name of a column of the file. The run may still go on. If there are many rows, the picture "
    "shows the first, the last, the lowest and the highest of each thousandth. The command needs gnuplot "
    "(the package gnuplot-nox).";

static error_t parse_plot(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'o':
        a->output = arg;
        return 0;
    case KEY_X:
        a->range.x = arg;
        return 0;
    case KEY_Y:
        a->y = arg;
        return 0;
    case KEY_LOG:
        a->range.positive = true;
        return 0;
    case KEY_FROM:
        a->range.first = (double)gw_number_of_option(state, "--from", arg, 0, INT64_MAX);
        a->range.limited = true;
        return 0;
    case KEY_TO:
        a->range.last = (double)gw_number_of_option(state, "--to", arg, 0, INT64_MAX);
        a->range.limited = true;
        return 0;
    case ARGP_KEY_SUCCESS:
        if (a->range.first > a->range.last) gw_argp_error(state, "--from: it is a step after that of --to");
        return 0;
    case ARGP_KEY_ARGS:
        a->files = state->argv + state->next;
        a->file_count = (uint32_t)(state->argc - state->next);
        if (a->file_count > FILES) gw_argp_error(state, "more than %d files", FILES);
        return 0;
    case ARGP_KEY_NO_ARGS:
        gw_argp_error(state, "give a file that 'godwit run --metrics' wrote");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The tables and columns to draw. */
typedef struct drawing {
    const arguments *arguments;
    const char *output;
    gw_metrics_table tables[FILES];
    const char *y[KEYS];
    uint32_t y_count;
    uint32_t curves, curves_of[FILES];
} drawing;

static bool is_in_any(const drawing *d, const char *key) {
    for (uint32_t f = 0; f < d->arguments->file_count; f++)
        if (gw_metrics_table_column(&d->tables[f], key) != UINT32_MAX) return true;
    return false;
}

/* Returns the first table with columns, or NULL. */
static const gw_metrics_table *some_table(const drawing *d) {
    for (uint32_t f = 0; f < d->arguments->file_count; f++)
        if (d->tables[f].columns > 0) return &d->tables[f];
    return NULL;
}

/* Chooses the keys to draw: those of --y, or else the losses, or else all that the job reports. */
static bool choose(drawing *d, gw_err *err) {
    static const char *const losses[] = {"loss", "val_loss", "test_loss"};
    enum { LOSSES = sizeof losses / sizeof *losses };
    char *rest = d->arguments->y, *key;
    const gw_metrics_table *first = some_table(d);
    if (first == NULL)
        return gw_fail(err, GW_E_INVALID, "%s: there is nothing in it to draw", d->arguments->files[0]);
    while (rest != NULL && (key = strsep(&rest, ",")) != NULL) {
        if (d->y_count == KEYS) return gw_fail(err, GW_E_USAGE, "--y: there are more than %d keys", KEYS);
        d->y[d->y_count++] = key;
    }
    for (int i = 0; i < LOSSES && d->arguments->y == NULL; i++)
        if (is_in_any(d, losses[i])) d->y[d->y_count++] = losses[i];
    for (uint32_t c = gw_metrics_table_column(first, "shards"); d->y_count == 0 && c < first->columns; c++)
        if (strcmp(first->name[c], "shards") != 0) d->y[d->y_count++] = first->name[c];
    if (d->y_count == 0)
        return gw_fail(err, GW_E_INVALID, "%s: there is nothing in it to draw", d->arguments->files[0]);
    for (uint32_t i = 0; i <= d->y_count; i++) {
        const char *name = i < d->y_count ? d->y[i] : d->arguments->range.x;
        if (is_in_any(d, name)) continue;
        char known[300] = "";
        for (uint32_t c = 0; c < first->columns; c++)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", c > 0 ? ", " : "",
                     first->name[c]);
        return gw_fail(err, GW_E_USAGE, "%s: there is no column '%s': the columns are %s",
                       i < d->y_count ? "--y" : "--x", name, known);
    }
    return true;
}

/* Returns the curve of a key, or NULL where there is none or it has no points. */
static const gw_curve *curve_of(const gw_metrics_table *table, const char *key) {
    uint32_t column = gw_metrics_table_column(table, key);
    return column != UINT32_MAX && table->curve[column].points > 0 ? &table->curve[column] : NULL;
}

/* Writes a curve as a block of data. Times are minutes from the first row. */
static void put_points(const drawing *d, const gw_metrics_table *table, const gw_curve *curve, FILE *out) {
    bool time = strcmp(d->arguments->range.x, "time") == 0;
    double zero = time ? table->first_x : 0.0, unit = time ? 60.0 : 1.0;
    fprintf(out, "$curve%u << END\n", d->curves);
    for (uint32_t b = 0; b < curve->bin_count; b++) {
        gw_curve_point points[GW_CURVE_BIN_POINTS];
        uint32_t count = gw_curve_bin_points(&curve->bins[b], points);
        for (uint32_t i = 0; i < count; i++)
            fprintf(out, "%s%.12g %.9g\n", points[i].apart ? "\n" : "", (points[i].x - zero) / unit,
                    points[i].y);
    }
    fputs("END\n", out);
}

/* Writes a text in single quotes, in which gnuplot interprets only the quote itself. */
static void put_quoted(const char *text, FILE *out) {
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'') fputc('\'', out);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
    fputc('\'', out);
}

/* Writes the data of the curves, and then the command that draws them. */
static void put_curves(drawing *d, FILE *out) {
    char *plots = NULL;
    size_t length = 0;
    FILE *plot = open_memstream(&plots, &length);
    for (uint32_t f = 0; plot != NULL && f < d->arguments->file_count; f++)
        for (uint32_t i = 0; i < d->y_count; i++) {
            const gw_curve *curve = curve_of(&d->tables[f], d->y[i]);
            if (curve == NULL) continue;
            put_points(d, &d->tables[f], curve, out);
            fprintf(plot, "%s $curve%u using 1:2 with %s linewidth 1.5 title ", d->curves > 0 ? "," : "plot",
                    d->curves, curve->points <= FEW ? "linespoints pointtype 7 pointsize 0.6" : "lines");
            char title[200];
            if (d->arguments->file_count > 1)
                snprintf(title, sizeof title, "%.150s: %s", d->arguments->files[f], d->y[i]);
            else
                snprintf(title, sizeof title, "%s", d->y[i]);
            put_quoted(title, plot);
            d->curves++;
            d->curves_of[f]++;
        }
    if (plot != NULL) fclose(plot);
    fprintf(out, "%s\n", plots != NULL ? plots : "");
    free(plots);
}

/* Writes the names of the files as the title. */
static void put_title(const drawing *d, FILE *out) {
    const arguments *a = d->arguments;
    char title[120];
    int length = snprintf(title, sizeof title, "%.80s", basename(a->files[0]));
    if (a->file_count > 1)
        snprintf(title + length, sizeof title - (size_t)length, " and %u more", a->file_count - 1);
    fputs("set title ", out);
    put_quoted(title, out);
    fputc('\n', out);
}

static void put_script(drawing *d, bool svg, FILE *out) {
    fputs(svg ? "set terminal svg size 960,600 noenhanced background rgb 'white' font 'sans,14'\n"
              : "set terminal pngcairo size 960,600 noenhanced font 'sans,11'\n",
          out);
    fputs("set grid linetype 1 linecolor rgb '#dddddd'\nset key top right\nset tics nomirror\nset border 3\n",
          out);
    put_title(d, out);
    if (d->arguments->range.positive) fputs("set logscale y\n", out);
    fputs("set xlabel ", out);
    put_quoted(strcmp(d->arguments->range.x, "time") == 0 ? "minutes" : d->arguments->range.x, out);
    fputc('\n', out);
    if (d->y_count == 1) {
        fputs("set ylabel ", out);
        put_quoted(d->y[0], out);
        fputc('\n', out);
    }
    put_curves(d, out);
}

/* Starts gnuplot with `in` as its standard input and `out` as its output. The option -d ignores the user's
 * own settings, which could change the picture. */
static bool start_gnuplot(int in, int out, pid_t *pid, gw_err *err) {
    extern char **environ;
    char *const argv[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-"}, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    int failure = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure == ENOENT)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "gnuplot, which draws the picture, is not installed: apt-get install gnuplot-nox");
    return failure == 0 || gw_fail_errno(err, failure, "cannot start gnuplot");
}

static bool copy(int from, const gw_output *output, gw_err *err) {
    char bytes[BLOCK];
    for (;;) {
        ssize_t got = read(from, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gw_fail_errno(err, errno, "cannot read what gnuplot draws");
        if (got == 0) return true;
        if (!gw_output_write(output, bytes, (size_t)got, err)) return false;
    }
}

static bool is_whole(const gw_output *output, bool svg) {
    char tail[64];
    const char *mark = svg ? "</svg>" : "IEND";
    off_t end = lseek(output->fd, 0, SEEK_END), some = (off_t)sizeof tail;
    ssize_t got = pread(output->fd, tail, sizeof tail, end > some ? end - some : 0);
    return got > 0 && memmem(tail, (size_t)got, mark, strlen(mark)) != NULL;
}

/* Copies what gnuplot writes from a pipe, because gnuplot does not check whether its own writes succeed. */
static bool run_gnuplot(int script, bool svg, const gw_output *output, gw_err *err) {
    int ends[2], status = 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0) return gw_fail_errno(err, errno, "cannot make a pipe");
    bool started = start_gnuplot(script, ends[1], &pid, err);
    close(ends[1]);
    bool copied = started && copy(ends[0], output, err);
    close(ends[0]);
    while (started && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (!copied) return false;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return gw_fail(err, GW_E_IO, "gnuplot failed; its message is above");
    return is_whole(output, svg) || gw_fail(err, GW_E_IO, "gnuplot ended before the picture was complete");
}

/* Draws the picture into a file that appears when it is complete. */
static bool draw(drawing *d, bool svg, gw_err *err) {
    gw_output output;
    FILE *script = tmpfile();
    if (script == NULL) return gw_fail_errno(err, errno, "cannot make a temporary file");
    put_script(d, svg, script);
    bool good = (fflush(script) == 0 && !ferror(script) && fseek(script, 0, SEEK_SET) == 0) ||
                gw_fail_errno(err, errno, "cannot write a temporary file");
    if (good && d->curves == 0) good = gw_fail(err, GW_E_INVALID, "there are no rows to draw yet");
    good = good && gw_output_open(d->output, &output, err);
    if (good) good = gw_output_end(&output, run_gnuplot(fileno(script), svg, &output, err), err);
    fclose(script);
    return good;
}

/* Writes the name of a metrics file without its ending; `folder`: behind the name of the folder that it is
 * in. */
static void put_name(const char *file, bool folder, FILE *out) {
    const char *name = basename(file), *dot = strrchr(name, '.'), *end = name;
    if (folder && name > file) {
        const char *begin = --end;
        while (begin > file && begin[-1] != '/') begin--;
        if (begin < end) fprintf(out, "%.*s-", (int)(end - begin), begin);
    }
    fprintf(out, "%.*s", (int)(dot != NULL && dot > name ? dot - name : (ptrdiff_t)strlen(name)), name);
}

/* Makes the name of a picture that has none, in the current folder, from those of all files, so that it does
 * not replace the picture of other ones. Files that are called alike are named with their folders. The caller
 * frees it. */
static char *name_picture(const arguments *a, gw_err *err) {
    bool alike = false;
    for (uint32_t f = 1; f < a->file_count; f++)
        for (uint32_t i = 0; i < f; i++) alike |= strcmp(basename(a->files[i]), basename(a->files[f])) == 0;
    char *name = NULL;
    size_t length;
    FILE *out = open_memstream(&name, &length);
    for (uint32_t f = 0; out != NULL && f < a->file_count; f++) {
        if (f > 0) fputs("-and-", out);
        put_name(a->files[f], alike, out);
    }
    if (out != NULL) fputs(".png", out);
    if (out == NULL || fclose(out) != 0) {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    if (length <= LONGEST_NAME) return name;
    gw_fail(err, GW_E_USAGE, "the names of %u files are too long for that of a picture: give one by --output",
            a->file_count);
    free(name);
    return NULL;
}

static bool plot(const arguments *a, const char *output, gw_err *err) {
    const char *dot = strrchr(output, '.');
    bool svg = dot != NULL && strcmp(dot, ".svg") == 0;
    if (!svg && (dot == NULL || strcmp(dot, ".png") != 0))
        return gw_fail(err, GW_E_USAGE, "--output: '%s' ends with neither .png nor .svg", output);
    drawing *d = calloc(1, sizeof *d);
    if (d == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    d->arguments = a;
    d->output = output;
    bool good = true;
    for (uint32_t f = 0; good && f < a->file_count; f++)
        good = gw_blame_named(gw_metrics_table_read(a->files[f], &a->range, &d->tables[f], err), err);
    good = good && choose(d, err) && draw(d, svg, err);
    for (uint32_t f = 0; good && f < a->file_count; f++)
        if (d->curves_of[f] == 0)
            fprintf(stderr,
                    "%s: no curve of %s is drawn: no row of the file has a number in the columns that are "
                    "drawn\n",
                    a->program, a->files[f]);
    if (good) printf("%s: %u curve%s\n", output, d->curves, d->curves == 1 ? "" : "s");
    for (uint32_t f = 0; f < a->file_count; f++) gw_metrics_table_free(&d->tables[f]);
    free(d);
    return good;
}

int gw_plot_main(int argc, char **argv) {
    arguments a = {.program = argv[0], .range = {.x = "step", .last = INFINITY}};
    const struct argp argp = {
        .options = plot_options, .parser = parse_plot, .args_doc = "FILE...", .doc = plot_doc};
    gw_err err;
    if (gw_argp_parse(&argp, argc, argv, &a) != 0) return 2;
    gw_output_clean_on_signals();
    char *named = a.output == NULL ? name_picture(&a, &err) : NULL;
    const char *output = a.output != NULL ? a.output : named;
    bool done = output != NULL && plot(&a, output, &err);
    free(named);
    if (done) return 0;
    return gw_command_fail(argv[0], &err);
}
