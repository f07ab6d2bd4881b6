#include "view.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { ROWS_MAX = 20, COMMANDS_MAX = 2000, COMMANDS_PLAIN = 10, NARROW = 40 };

/* --- short texts of numbers --- */

struct text {
    char text[48];
};

static struct text text_take(struct buffer *buffer)
{
    struct text text;

    snprintf(text.text, sizeof(text.text), "%.*s", (int)buffer->size, buffer->data);
    buffer_release(buffer);
    return text;
}

static struct text short_count(double number)
{
    struct buffer buffer = { 0 };

    progress_amount(number, PROGRESS_COUNT, &buffer);
    return text_take(&buffer);
}

static struct text short_bytes(double number)
{
    struct buffer buffer = { 0 };

    progress_amount(number, PROGRESS_BYTES, &buffer);
    return text_take(&buffer);
}

static struct text short_time(double seconds)
{
    struct buffer buffer = { 0 };

    progress_time(seconds, &buffer);
    return text_take(&buffer);
}

static struct text short_us(double us)
{
    struct text text;

    if (us < 1000)
        snprintf(text.text, sizeof(text.text), "%.*f us", us < 9.995 && us != floor(us) ? 1 : 0, us);
    else if (us < 1e6)
        snprintf(text.text, sizeof(text.text), "%.*f ms", us < 99950 ? 1 : 0, us / 1e3);
    else
        snprintf(text.text, sizeof(text.text), "%.*f s", us < 99.95e6 ? 1 : 0, us / 1e6);
    return text;
}

enum form { FORM_COUNT, FORM_BYTES, FORM_US };

static struct text shortened(double value, enum form form)
{
    return form == FORM_BYTES ? short_bytes(value) : form == FORM_US ? short_us(value) : short_count(value);
}

/* Bytes of the server's, so that a terminal shows them as they are and does nothing else. */
static struct text printable(struct bytes bytes, size_t most)
{
    struct text text = { "" };
    size_t size = bytes.size < most ? bytes.size : most;

    if (size >= sizeof(text.text))
        size = sizeof(text.text) - 1;
    memcpy(text.text, bytes.data, size);
    reading_make_printable(text.text, size);
    return text;
}

/* --- rows --- */

/* A row and how important it is: those with high ranks are left out of a small window. */
struct ranked {
    int rank;
    struct row row;
};

struct page {
    const struct view *view;
    struct row title;               /* its label is the server, as long as it is */
    struct ranked rows[ROWS_MAX];
    int count;
};

static struct row *add_row(struct page *page, int rank, const char *label)
{
    struct ranked *ranked = &page->rows[page->count++];

    *ranked = (struct ranked){ .rank = rank, .row = { .label = label, .fraction = -1 } };
    return &ranked->row;
}

static void __attribute__((format(printf, 2, 3))) add_piece(struct row *row, const char *format, ...)
{
    va_list arguments;

    if (row->count == ROW_PIECES_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(row->pieces[row->count++], ROW_PIECE_SIZE, format, arguments);
    va_end(arguments);
}

static void pad(struct buffer *out, size_t begin, size_t width)
{
    while (out->size - begin < width)
        buffer_append_u8(out, ' ');
}

void row_write(const struct row *row, int columns, struct buffer *out)
{
    enum { LABEL = 12, LABEL_NARROW = 7, BAR_MIN = 10, BAR_MAX = 40 };
    size_t begin = out->size, most = columns > 0 ? (size_t)columns : 0, label = columns < NARROW ? LABEL_NARROW : LABEL;
    size_t bar = most > label ? (most - label) / 3 : 0;

    buffer_append(out, row->label, strlen(row->label) < label ? strlen(row->label) : label - 1);
    pad(out, begin, label);
    if (row->fraction >= 0 && bar >= BAR_MIN) {
        progress_bar(row->fraction, bar < BAR_MAX ? (int)bar : BAR_MAX, out);
        buffer_append_string(out, " ");
    }
    for (int i = 0, shown = 0; i < row->count; i++) {
        size_t gap = shown > 0 ? 2 : 0;

        if (out->size - begin + gap + strlen(row->pieces[i]) > most)
            continue;
        buffer_append(out, "  ", gap);
        buffer_append_string(out, row->pieces[i]);
        shown++;
    }
    if (out->size - begin > most)
        out->size = begin + most;
    while (out->size > begin && out->data[out->size - 1] == ' ')
        out->size--;
    buffer_append_u8(out, '\n');
}

/* --- pieces of single fields --- */

static bool number(const struct page *page, const char *name, double *value)
{
    return reading_number(page->view->now, name, value);
}

static bool rate(const struct page *page, const char *name, double *per_s)
{
    return page->view->before != NULL && reading_rate(page->view->before, page->view->now, name, per_s);
}

static bool has_prefix(struct bytes name, const char *prefix)
{
    return name.size > strlen(prefix) && memcmp(name.data, prefix, strlen(prefix)) == 0;
}

/* Both say nothing if the server does not have the field. */
static void add_number(const struct page *page, struct row *row, const char *before, const char *name, enum form form, const char *after)
{
    double value;

    if (number(page, name, &value))
        add_piece(row, "%s%s%s", before, shortened(value, form).text, after);
}

static void add_rate(const struct page *page, struct row *row, const char *before, const char *name, enum form form)
{
    double per_s;

    if (rate(page, name, &per_s))
        add_piece(row, "%s%s/s", before, shortened(per_s, form).text);
}

/* The same, if it is not 0. */
static void add_alarm(const struct page *page, struct row *row, const char *before, const char *name, const char *after)
{
    double value;

    if (number(page, name, &value) && value != 0)
        add_piece(row, "%s%s%s", before, short_count(value).text, after);
}

static void end_row(struct row *row)
{
    if (row->count == 0)
        add_piece(row, "-");
}

/* --- the rows --- */

static void add_title(struct page *page)
{
    const struct view *view = page->view;
    struct row *row = &page->title;
    struct bytes text;
    double value;

    if (view->failure[0] != '\0') {
        add_piece(row, "NO CONNECTION");
        add_piece(row, "for %s", short_time(view->failed_s).text);
        add_piece(row, "%.80s", view->failure);
        if (view->now != NULL)
            add_piece(row, "(what follows is the last reading)");
        return;
    }
    if (view->now == NULL) {
        add_piece(row, "connecting");
        return;
    }
    if (reading_text(view->now, "kelvin_version", &text))
        add_piece(row, "Kelvin %s", printable(text, 16).text);
    else if (reading_text(view->now, "redis_version", &text))
        add_piece(row, "Redis %s", printable(text, 16).text);
    if (reading_text(view->now, "role", &text))
        add_piece(row, "%s", bytes_equal(text, BYTES("master")) ? "primary" : bytes_equal(text, BYTES("slave")) ? "replica" : printable(text, 12).text);
    if (number(page, "uptime_in_seconds", &value))
        add_piece(row, "up %s", short_time(value).text);
    add_number(page, row, "clients ", "connected_clients", FORM_COUNT, "");
    if (reading_text(view->now, "tier_status", &text) && !bytes_equal(text, BYTES("ok")))
        add_piece(row, "tier: %s", printable(text, 16).text);
    if (view->now->took_s > 0.1)
        add_piece(row, "INFO took %s", short_us(view->now->took_s * 1e6).text);
}

static void add_work(struct page *page)
{
    static const char *const names[] = { [WORK_LOADING] = "loading", [WORK_SYNC] = "full sync", [WORK_SAVE] = "dump", [WORK_WARMUP] = "warm-up" };
    const struct work *work = page->view->work;
    enum form form;
    struct row *row;
    double left;

    if (work == NULL || work->kind == WORK_NONE)
        return;
    form = work->progress.unit == PROGRESS_BYTES ? FORM_BYTES : FORM_COUNT;
    row = add_row(page, 1, names[work->kind]);
    if (work->progress.total > 0) {
        row->fraction = progress_fraction(&work->progress);
        add_piece(row, "%.0f %%", floor(100 * row->fraction));
    } else {
        add_piece(row, "%s", shortened((double)work->progress.done, form).text);
    }
    left = progress_left_s(&work->progress);
    if (left >= 0)
        add_piece(row, "%s left", short_time(left).text);
    if (work->progress.rate >= 0)
        add_piece(row, "%s/s", shortened(work->progress.rate, form).text);
    if (work->progress.total > 0)
        add_piece(row, "of %s", shortened((double)work->progress.total, form).text);
}

static void add_memory(struct page *page)
{
    struct row *row = add_row(page, 2, "memory");
    double used, limit = 0;

    if (!number(page, "tier_memory_counted", &used) && !number(page, "used_memory", &used)) {
        end_row(row);
        return;
    }
    if (number(page, "maxmemory", &limit) && limit > 0) {
        row->fraction = used / limit;
        add_piece(row, "%s/%s", short_bytes(used).text, short_bytes(limit).text);
        add_piece(row, "%.0f %%", 100 * used / limit);
    } else {
        add_piece(row, "%s", short_bytes(used).text);
        add_piece(row, "no maxmemory");
    }
    add_number(page, row, "rss ", "used_memory_rss", FORM_BYTES, "");
    add_number(page, row, "peak ", "used_memory_peak", FORM_BYTES, "");
    add_number(page, row, "hot keys ", "tier_hot_bytes", FORM_BYTES, "");
    add_alarm(page, row, "", "tier_memory_waiting_clients", " clients wait");
}

/* The share of `part` in both, over the last interval. */
static bool share(const struct page *page, const char *part, const char *other, double *percent)
{
    double a, b;

    if (!rate(page, part, &a) || !rate(page, other, &b) || a + b <= 0)
        return false;
    *percent = 100 * a / (a + b);
    return true;
}

static void add_hits(struct page *page)
{
    struct row *row = add_row(page, 3, "hits");
    double percent, hot, cold;

    if (share(page, "tier_hot_hits", "tier_cold_hits", &percent))
        add_piece(row, "%.2f %% hot", percent);
    if (number(page, "tier_hot_hits", &hot) && number(page, "tier_cold_hits", &cold) && hot + cold > 0)
        add_piece(row, "since start %.2f %%", 100 * hot / (hot + cold));
    if (share(page, "keyspace_hits", "keyspace_misses", &percent))
        add_piece(row, "%.2f %% found", percent);
    add_rate(page, row, "cold ", "tier_cold_hits", FORM_COUNT);
    add_rate(page, row, "misses ", "tier_misses", FORM_COUNT);
    add_rate(page, row, "blind writes ", "tier_blind_writes", FORM_COUNT);
    end_row(row);
}

static void add_requests(struct page *page)
{
    struct row *row = add_row(page, 4, "requests");
    double now;

    if (page->view->before != NULL)
        add_rate(page, row, "", "total_commands_processed", FORM_COUNT);
    else if (number(page, "instantaneous_ops_per_sec", &now))
        add_piece(row, "%s/s", short_count(now).text);
    add_rate(page, row, "in ", "total_net_input_bytes", FORM_BYTES);
    add_rate(page, row, "out ", "total_net_output_bytes", FORM_BYTES);
    add_alarm(page, row, "blocked ", "blocked_clients", "");
    add_rate(page, row, "connections ", "total_connections_received", FORM_COUNT);
    end_row(row);
}

/* Redis has them by database only: db0:keys=1,expires=0 ... */
static double keys_of_databases(const struct reading *reading)
{
    double sum = 0;

    for (size_t i = 0; i < reading->count; i++) {
        const struct field *field = &reading->fields[i];
        double keys;

        if (has_prefix(field->name, "db") && reading_part_number(field->value, "keys", &keys))
            sum += keys;
    }
    return sum;
}

static void add_keys(struct page *page)
{
    struct row *row = add_row(page, 6, "keys");
    double hot;

    if (number(page, "tier_hot_keys", &hot)) {
        add_piece(row, "%s hot", short_count(hot).text);
        add_number(page, row, "", "tier_cold_keys", FORM_COUNT, " cold");
        add_number(page, row, "", "tier_dirty_keys", FORM_COUNT, " dirty");
    } else {
        add_piece(row, "%s", short_count(keys_of_databases(page->view->now)).text);
    }
    add_rate(page, row, "expired ", "expired_keys", FORM_COUNT);
    add_rate(page, row, "evicted ", "evicted_keys", FORM_COUNT);
    add_alarm(page, row, "pinned ", "tier_pinned_keys", "");
    end_row(row);
}

static void add_loads(struct page *page)
{
    struct row *row = add_row(page, 7, "loads");

    add_rate(page, row, "", "tier_promotions", FORM_COUNT);
    add_number(page, row, "waiting ", "tier_loads_waiting", FORM_COUNT, "");
    add_number(page, row, "p50 ", "tier_load_usec_p50", FORM_US, "");
    add_number(page, row, "p99 ", "tier_load_usec_p99", FORM_US, "");
    add_rate(page, row, "looks ", "tier_looks", FORM_COUNT);
    end_row(row);
}

static void add_waits(struct page *page)
{
    struct row *row = add_row(page, 10, "waits");

    add_rate(page, row, "cold ", "tier_cold_wait_calls", FORM_COUNT);
    add_number(page, row, "p50 ", "tier_cold_wait_usec_p50", FORM_US, "");
    add_number(page, row, "p99 ", "tier_cold_wait_usec_p99", FORM_US, "");
    add_rate(page, row, "memory ", "tier_memory_wait_calls", FORM_COUNT);
    add_number(page, row, "p99 ", "tier_memory_wait_usec_p99", FORM_US, "");
    add_rate(page, row, "locks ", "partition_lock_waits", FORM_COUNT);
    end_row(row);
}

static void add_demotion(struct page *page)
{
    struct row *row = add_row(page, 8, "demotion");
    double all, clean;

    add_rate(page, row, "", "tier_demotions", FORM_COUNT);
    if (rate(page, "tier_demotions", &all) && rate(page, "tier_clean_demotions", &clean) && all > 0)
        add_piece(row, "%.0f %% clean", 100 * clean / all);
    add_rate(page, row, "written ", "tier_segment_written_bytes", FORM_BYTES);
    add_rate(page, row, "collected ", "tier_collected_bytes", FORM_BYTES);
    add_rate(page, row, "batches ", "tier_batches", FORM_COUNT);
    end_row(row);
}

static void add_store(struct page *page)
{
    struct row *row = add_row(page, 9, "store");
    double live, all;

    add_number(page, row, "", "tier_store_bytes", FORM_BYTES, "");
    if (number(page, "tier_segment_live_bytes", &live) && number(page, "tier_segment_bytes", &all) && all > 0)
        add_piece(row, "%.0f %% live", fmin(100, 100 * live / all));
    add_number(page, row, "segments ", "tier_segments", FORM_COUNT, "");
    add_number(page, row, "map ", "tier_recordmap_bytes", FORM_BYTES, "");
    add_alarm(page, row, "damaged ", "tier_damaged_records", "");
    add_alarm(page, row, "graves ", "tier_graves", "");
    end_row(row);
}

static void add_backup(struct page *page, struct row *row)
{
    double running, ms;

    if (number(page, "tier_backup_in_progress", &running) && running != 0 && number(page, "tier_backup_current_ms", &ms))
        add_piece(row, "backup runs for %s", short_time(ms / 1000).text);
}

static void add_checkpoint(struct page *page)
{
    struct row *row = add_row(page, 11, "checkpoint");
    double on = 0, running = 0, seconds, last = -1, size, base;

    number(page, "aof_last_rewrite_time_sec", &last);
    if (number(page, "aof_rewrite_in_progress", &running) && running != 0 && number(page, "aof_current_rewrite_time_sec", &seconds)) {
        add_piece(row, "running %s", short_time(seconds).text);
        if (last > seconds)
            add_piece(row, "about %s left", short_time(last - seconds).text);
    } else if (last >= 0) {
        add_piece(row, "took %s", short_time(last).text);
    } else if (number(page, "aof_enabled", &on)) {
        add_piece(row, "%s", on != 0 ? "none yet" : "no log");
    }
    if (number(page, "aof_current_size", &size) && number(page, "aof_base_size", &base) && size >= base)
        add_piece(row, "log to replay %s", short_bytes(size - base).text);
    if (reading_is(page->view->now, "aof_last_bgrewrite_status", "err"))
        add_piece(row, "THE LAST ONE FAILED");
    if (number(page, "rdb_bgsave_in_progress", &running) && running != 0)
        add_piece(row, "a dump is written");
    add_backup(page, row);
    add_number(page, row, "", "rdb_changes_since_last_save", FORM_COUNT, " changes since the dump");
    end_row(row);
}

static void add_replicas(const struct page *page, struct row *row)
{
    double offset = -1, lag = -1, syncing = 0, replicas = 0;

    number(page, "connected_slaves", &replicas);
    number(page, "master_repl_offset", &offset);
    for (size_t i = 0; i < page->view->now->count; i++) {
        const struct field *field = &page->view->now->fields[i];
        struct bytes state;
        double acknowledged;

        if (!has_prefix(field->name, "slave") || !reading_part(field->value, "state", &state))
            continue;
        if (!bytes_equal(state, BYTES("online")))
            syncing++;
        else if (reading_part_number(field->value, "offset", &acknowledged) && offset - acknowledged > lag)
            lag = offset - acknowledged;
    }
    add_piece(row, "%s replica%s", short_count(replicas).text, replicas == 1 ? "" : "s");
    if (syncing > 0)
        add_piece(row, "%s in a full synchronization", short_count(syncing).text);
    if (lag >= 0)
        add_piece(row, "largest lag %s", short_bytes(lag).text);
}

static void add_link(const struct page *page, struct row *row)
{
    const struct reading *now = page->view->now;
    struct bytes host, port, state;
    double received, applied, silent;

    if (reading_text(now, "master_link_status", &state))
        add_piece(row, "link %s", printable(state, 10).text);
    if (reading_text(now, "master_host", &host) && reading_text(now, "master_port", &port))
        add_piece(row, "to %s:%s", printable(host, 40).text, printable(port, 8).text);
    if (number(page, "slave_read_repl_offset", &received) && number(page, "slave_repl_offset", &applied) && received >= applied)
        add_piece(row, "%s not applied", short_bytes(received - applied).text);
    if (number(page, "master_last_io_seconds_ago", &silent) && silent >= 0)
        add_piece(row, "last input %s s ago", short_count(silent).text);
}

static void add_replication(struct page *page)
{
    struct row *row = add_row(page, 12, "replication");

    if (reading_is(page->view->now, "role", "slave"))
        add_link(page, row);
    if (reading_is(page->view->now, "role", "master"))
        add_replicas(page, row);
    add_rate(page, row, "in ", "total_net_repl_input_bytes", FORM_BYTES);
    add_rate(page, row, "out ", "total_net_repl_output_bytes", FORM_BYTES);
    end_row(row);
}

static void add_sizes(struct row *row, const struct advice *advice)
{
    const struct advice_size *present = &advice->present, *doubled = &advice->doubled;

    add_piece(row, "%.2f %% hot", doubled->hit_ratio);
    add_piece(row, "instead of %.2f %%", present->hit_ratio);
    if (present->reads_per_s > 0 && doubled->reads_per_s >= 0 && doubled->reads_per_s <= present->reads_per_s)
        add_piece(row, "%.0f %% fewer reads", 100 - 100 * doubled->reads_per_s / present->reads_per_s);
    if (present->p99_us >= 0 && doubled->p99_us >= 0)
        add_piece(row, "p99 %s instead of %s", short_us(doubled->p99_us).text, short_us(present->p99_us).text);
}

/* By TIER ADVISE; by INFO for a user that may not call it. */
static void add_advice(struct page *page)
{
    struct row *row = add_row(page, 13, "2x memory");
    double present, doubled;

    if (page->view->advice != NULL && page->view->advice->present.known && page->view->advice->doubled.known) {
        add_sizes(row, page->view->advice);
    } else if (number(page, "tier_advise_hit_ratio", &present) && number(page, "tier_advise_double_hit_ratio", &doubled)) {
        if (doubled > 0) {
            add_piece(row, "%.2f %% hot", doubled);
            add_piece(row, "instead of %.2f %%", present);
        } else {
            add_piece(row, "not known yet");
        }
    }
    end_row(row);
}

/* What each of them has counted since the last reading. */
static void add_error_codes(const struct page *page, struct row *row)
{
    const struct reading *before = page->view->before, *now = page->view->now;

    for (size_t i = 0; reading_follows(before, now) && i < now->count; i++) {
        const struct field *field = &now->fields[i];
        struct bytes old;
        double count, old_count = 0;

        if (!has_prefix(field->name, "errorstat_") || !reading_part_number(field->value, "count", &count))
            continue;
        if (reading_text_near(before, i, field->name, &old) && !reading_part_number(old, "count", &old_count))
            continue;
        if (count > old_count)
            add_piece(row, "%s %s", printable(bytes_of(field->name.data + 10, field->name.size - 10), 24).text, short_count(count - old_count).text);
    }
}

static void add_errors(struct page *page)
{
    struct row *row = add_row(page, 5, "errors");
    const struct reading *now = page->view->now;
    struct bytes text;

    add_rate(page, row, "", "total_error_replies", FORM_COUNT);
    add_alarm(page, row, "tier ", "tier_errors", "");
    if (reading_is(now, "aof_last_write_status", "err"))
        add_piece(row, "THE LOG CAN'T BE WRITTEN");
    if (reading_is(now, "rdb_last_bgsave_status", "err"))
        add_piece(row, "THE LAST DUMP FAILED");
    if (reading_text(now, "tier_last_error", &text) && text.size > 0)
        add_piece(row, "%s", printable(text, 47).text);
    add_error_codes(page, row);
    add_alarm(page, row, "connections refused ", "rejected_connections", "");
    end_row(row);
}

/* --- the commands --- */

struct command_use {
    struct bytes name;
    double calls, busy_us, failed, rejected;    /* a second */
};

static int by_busy_time(const void *a, const void *b)
{
    const struct command_use *one = a, *other = b;

    return one->busy_us != other->busy_us ? (one->busy_us < other->busy_us ? 1 : -1) : (one->calls < other->calls) - (one->calls > other->calls);
}

/* Grown parts of a row of commandstats, a second. */
static double grown(struct bytes old, struct bytes new, const char *name, double seconds)
{
    double before = 0, now;

    if (!reading_part_number(new, name, &now) || (old.size > 0 && !reading_part_number(old, name, &before)) || now < before)
        return 0;
    return (now - before) / seconds;
}

/* Returns the commands that were called between the readings, the busiest first. The caller frees them. */
static size_t find_commands(const struct view *view, struct command_use **found)
{
    const char prefix[] = "cmdstat_";
    struct command_use *uses = mem_alloc(COMMANDS_MAX * sizeof(*uses));
    size_t count = 0;

    for (size_t i = 0; reading_follows(view->before, view->now) && i < view->now->count && count < COMMANDS_MAX; i++) {
        const struct field *field = &view->now->fields[i];
        double seconds = (double)(view->now->taken_us - view->before->taken_us) / 1e6;
        struct bytes old = { "", 0 };
        struct command_use *use = &uses[count];

        if (!has_prefix(field->name, prefix))
            continue;
        (void)reading_text_near(view->before, i, field->name, &old);
        *use = (struct command_use){
            .name = bytes_of(field->name.data + sizeof(prefix) - 1, field->name.size - sizeof(prefix) + 1),
            .calls = grown(old, field->value, "calls", seconds), .busy_us = grown(old, field->value, "usec", seconds),
            .failed = grown(old, field->value, "failed_calls", seconds), .rejected = grown(old, field->value, "rejected_calls", seconds),
        };
        count += use->calls > 0 || use->failed > 0 || use->rejected > 0;
    }
    qsort(uses, count, sizeof(*uses), by_busy_time);
    *found = uses;
    return count;
}

/* Columns of 10 characters after the name; those that do not fit are left out, and so is a number that does not fit its column. */
static void write_columns(const char *name, const char *const *cells, int count, int columns, struct buffer *out)
{
    enum { CELL = 10, NAME = 20, NAME_NARROW = 9 };
    size_t begin = out->size, most = columns > 0 ? (size_t)columns : 0, width = columns < NARROW ? NAME_NARROW : NAME;

    if (width > most)
        width = most;
    buffer_append(out, name, strlen(name) < width ? strlen(name) : width);
    pad(out, begin, width);
    for (int i = 0; i < count && out->size - begin + CELL <= most; i++)
        buffer_append_format(out, "%*s", CELL, strlen(cells[i]) < CELL ? cells[i] : "-");
    buffer_append_u8(out, '\n');
}

static void write_commands(const struct view *view, int columns, int rows, struct buffer *out)
{
    static const char *const heads[] = { "busy", "calls/s", "time/call", "failed/s", "refused/s" };
    struct command_use *uses;
    size_t count = find_commands(view, &uses);

    buffer_append_u8(out, '\n');
    write_columns("command", heads, 5, columns, out);
    for (size_t i = 0; i < count && (int)i < rows; i++) {
        struct text name = printable(uses[i].name, 19), busy, calls = short_count(uses[i].calls), each = { "-" };
        struct text failed = short_count(uses[i].failed), rejected = short_count(uses[i].rejected);
        const char *cells[] = { busy.text, calls.text, each.text, failed.text, rejected.text };

        snprintf(busy.text, sizeof(busy.text), "%.1f %%", uses[i].busy_us / 1e4);
        if (uses[i].calls > 0)
            each = short_us(uses[i].busy_us / uses[i].calls);
        write_columns(name.text, cells, 5, columns, out);
    }
    mem_free(uses);
}

/* --- the page --- */

static void write_rows(const struct page *page, int columns, int rows, struct buffer *out)
{
    int limit = 0;

    /* The highest rank that is shown: ranks are all different. */
    for (int shown = 0; limit < ROWS_MAX && (rows <= 0 || shown <= rows); limit++) {
        for (int i = 0; i < page->count; i++)
            shown += page->rows[i].rank == limit;
        if (rows > 0 && shown > rows)
            break;
    }
    for (int i = 0; i < page->count; i++) {
        if (page->rows[i].rank < limit)
            row_write(&page->rows[i].row, columns, out);
    }
}

static void write_title(const struct page *page, int columns, struct buffer *out)
{
    size_t begin = out->size, label = strlen(page->view->server);
    const struct row *title = &page->title;

    if (columns <= 0)
        return;
    buffer_append(out, page->view->server, label < (size_t)columns ? label : (size_t)columns);
    for (int i = 0; i < title->count; i++) {
        if (out->size - begin + 2 + strlen(title->pieces[i]) <= (size_t)columns)
            buffer_append_format(out, "  %s", title->pieces[i]);
    }
    buffer_append_u8(out, '\n');
}

void view_write(const struct view *view, int columns, int rows, struct buffer *out)
{
    struct page *page = mem_zalloc(sizeof(*page));
    int used;

    page->view = view;
    add_title(page);
    if (view->now != NULL) {
        add_work(page);
        add_memory(page);
        add_hits(page);
        add_requests(page);
        add_errors(page);
        add_keys(page);
        add_loads(page);
        add_waits(page);
        add_demotion(page);
        add_store(page);
        add_checkpoint(page);
        add_replication(page);
        add_advice(page);
    }
    write_title(page, columns, out);
    used = page->count + 1;
    if (rows != 1)
        write_rows(page, columns, rows > 0 ? rows - 1 : 0, out);
    if (view->now != NULL && (rows <= 0 || rows - used >= 3))
        write_commands(view, columns, rows <= 0 ? COMMANDS_PLAIN : rows - used - 2, out);
    mem_free(page);
}

/* --- long work --- */

static bool is_one(const struct reading *reading, const char *name)
{
    double value;

    return reading_number(reading, name, &value) && value != 0;
}

static enum work_kind find_work(const struct reading *now, double *done, double *total)
{
    if (is_one(now, "loading") && reading_number(now, "loading_total_bytes", total) && reading_number(now, "loading_loaded_bytes", done))
        return WORK_LOADING;
    if (is_one(now, "master_sync_in_progress") && reading_number(now, "master_sync_total_bytes", total) &&
        reading_number(now, "master_sync_read_bytes", done))
        return WORK_SYNC;
    if (is_one(now, "rdb_bgsave_in_progress") && reading_number(now, "current_save_keys_total", total) &&
        reading_number(now, "current_save_keys_processed", done))
        return WORK_SAVE;
    if (reading_is(now, "tier_warmup_state", "running") && reading_number(now, "tier_warmup_keys_total", total) &&
        reading_number(now, "tier_warmup_keys_loaded", done))
        return WORK_WARMUP;
    return WORK_NONE;
}

static uint64_t to_count(double number)
{
    return number > 0 && number < 1e18 ? (uint64_t)number : 0;
}

void work_note(struct work *work, const struct reading *now)
{
    double done = 0, total = 0;
    enum work_kind kind = find_work(now, &done, &total);
    enum progress_unit unit = kind == WORK_LOADING || kind == WORK_SYNC ? PROGRESS_BYTES : PROGRESS_COUNT;

    if (to_count(total) == 0 && kind != WORK_SYNC)      /* of an RDB that is sent while it is made the size is not known */
        kind = WORK_NONE;
    if (kind != work->kind)
        *work = (struct work){ .kind = kind };
    if (kind != WORK_NONE)
        progress_follow(&work->progress, unit, to_count(done), to_count(total), now->taken_us);
}
