/* What the caching allocator tells of itself: snapshots, history, trackers. */
#include "backend/cuda/runtime/alloc.h"
#include "backend/cuda/runtime/snapshot_write.h"
#include "support/cache_source.h"
#include "support/files.h"
#include "support/support.h"
#include <jansson.h>
#include <stdlib.h>
#include <sys/wait.h>

static const int64_t MIB = 1 << 20, GIB = 1 << 30;

static fake_source f;
static fac_caching_allocator *a;

static void begin(const char *settings) {
    fake_source_begin(&f, GIB);
    a = fac_caching_allocator_new(&f.source, 0, settings);
    assert_no_error();
    assert_non_null(a);
}

static void end(void) {
    fac_caching_allocator_free(a);
    fake_source_end(&f);
}

static char *get(int64_t bytes) {
    const fac_allocator *face = fac_caching_allocator_face(a);
    char *p = face->alloc(face, bytes);
    assert_no_error();
    assert_non_null(p);
    return p;
}

static void give(void *p) {
    const fac_allocator *face = fac_caching_allocator_face(a);
    face->free(face, p, 0);
    assert_no_error();
}

static fac_memory_snapshot *take(void) {
    fac_memory_snapshot *s = fac__alloc_zero(sizeof *s);
    assert_non_null(s);
    s->n_devices = 1;
    s->settings = fac__strdup("max_split_size_mb:40,roundup_power2_divisions:[64:2,>:4]");
    assert_ok(fac__cache_snapshot(a, s));
    fac__snapshot_sort(s);
    return s;
}

static void S207_snapshot_lists_segments_and_blocks_with_their_states(void **state) {
    (void)state;
    begin(NULL);
    char *p = get(1000), *q = get(3 * MIB);
    f.stream = 2;
    char *r = get(5 * MIB);
    fake_issue(&f, 1);
    assert_ok(fac_caching_allocator_record_stream(a, q, 1));
    give(q);
    fac_memory_snapshot *s = take();
    assert_int_equal(s->n_segments, 3);
    const fac_memory_segment *small = &s->segments[0], *large = &s->segments[1], *other = &s->segments[2];
    assert_int_equal(small->address, (uintptr_t)p);
    assert_int_equal(small->total_size, 2 * MIB);
    assert_false(small->large);
    assert_int_equal(small->n_blocks, 2);
    assert_int_equal(small->blocks[0].size, 1024);
    assert_int_equal(small->blocks[0].requested_size, 1000);
    assert_int_equal(small->blocks[0].state, FAC_BLOCK_ACTIVE_ALLOCATED);
    assert_int_equal(small->blocks[1].state, FAC_BLOCK_INACTIVE);
    assert_int_equal(small->allocated_size, 1024);
    assert_int_equal(large->blocks[0].state, FAC_BLOCK_ACTIVE_PENDING_FREE);
    assert_int_equal(large->allocated_size, 0);
    assert_int_equal(large->active_size, 3 * MIB);
    assert_true(large->large);
    assert_int_equal(other->stream, 2);
    assert_int_equal(other->blocks[0].address, (uintptr_t)r);
    assert_int_equal(s->n_events, 0); /* no history was recorded */
    fac_memory_snapshot_free(s);
    fake_complete(&f, 1);
    give(p), give(r);
    end();
}

static void S207_expandable_segments_show_what_is_mapped(void **state) {
    (void)state;
    begin("expandable_segments:True");
    char *p = get(30 * MIB), *q = get(30 * MIB);
    give(p);
    assert_ok(fac_caching_allocator_empty_cache(a)); /* leaves a hole in front */
    fac_memory_snapshot *s = take();
    assert_int_equal(s->n_segments, 1);
    assert_true(s->segments[0].is_expandable);
    assert_int_equal(s->segments[0].address, (uintptr_t)(p + 20 * MIB));
    assert_int_equal(s->segments[0].total_size, 40 * MIB);
    assert_int_equal(s->segments[0].n_blocks, 2);
    fac_memory_snapshot_free(s);
    give(q);
    end();
}

static void X24_history_keeps_the_latest_events_with_call_sites(void **state) {
    (void)state;
    begin(NULL);
    assert_ok(fac__cache_record_history(a, FAC_HISTORY_ALL, 4));
    assert_ok(fac_cuda_set_memory_metadata("layer 1"));
    char *p = get(1000);
    assert_ok(fac_cuda_set_memory_metadata(NULL));
    char *q = get(600);
    give(p);
    fac_memory_snapshot *s = take();
    assert_int_equal(s->n_events, 4); /* of segment_alloc, alloc, alloc, free_requested, free_completed */
    assert_int_equal(s->events[0].action, FAC_MEMORY_ALLOC);
    assert_string_equal(s->events[0].stack.metadata, "layer 1");
    assert_true(s->events[0].stack.n_frames > 1);
    assert_int_equal(s->events[1].size, 600);
    assert_string_equal(s->events[1].stack.metadata, "");
    assert_int_equal(s->events[2].action, FAC_MEMORY_FREE_REQUESTED);
    assert_int_equal(s->events[3].action, FAC_MEMORY_FREE_COMPLETED);
    assert_int_equal(s->events[3].address, (uintptr_t)p);
    assert_true(s->events[3].time_us >= s->events[0].time_us);
    assert_true(s->segments[0].blocks[1].stack.n_frames > 1); /* of the live block */
    fac_memory_snapshot_free(s);
    assert_ok(fac__cache_record_history(a, FAC_HISTORY_STATE, 0));
    p = get(1000);
    s = take();
    assert_int_equal(s->n_events, 0);
    assert_true(s->segments[0].blocks[0].stack.n_frames > 1);
    fac_memory_snapshot_free(s);
    assert_ok(fac__cache_record_history(a, FAC_HISTORY_OFF, 0));
    assert_int_equal(fac__cache_record_history(a, 9, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "levels 0 to 3");
    give(p), give(q);
    end();
}

static fac_memory_action told[16];
static size_t n_told;
static void tracker(void *context, const fac_memory_event *e) {
    if (n_told < FAC_COUNT(told)) told[n_told++] = e->action;
    if (e->action == FAC_MEMORY_OOM) fac__cache_free(context, fac__cache_alloc(context, 512, 0)); /* no lock is held */
}

static void X25_trackers_hear_of_every_event(void **state) {
    (void)state;
    begin(NULL);
    n_told = 0;
    assert_ok(fac_cuda_attach_memory_tracker(tracker, a));
    give(get(3 * MIB));
    assert_ok(fac_caching_allocator_empty_cache(a));
    const fac_memory_action expected[] = {FAC_MEMORY_SEGMENT_ALLOC, FAC_MEMORY_ALLOC, FAC_MEMORY_FREE_REQUESTED,
                                          FAC_MEMORY_FREE_COMPLETED, FAC_MEMORY_SEGMENT_FREE};
    assert_int_equal(n_told, FAC_COUNT(expected));
    assert_memory_equal(told, expected, sizeof expected);
    n_told = 0;
    assert_null(fac__cache_alloc(a, 2 * GIB, 0));
    assert_error(FAC_ERR_MEMORY, "out of memory");
    assert_int_equal(told[0], FAC_MEMORY_OOM);
    fac_cuda_detach_memory_tracker(tracker, a);
    const size_t n = n_told;
    give(get(512));
    assert_int_equal(n_told, n);
    end();
}

/* A cache with everything that a file can show. */
static fac_memory_snapshot *varied(char **out_kept) {
    begin("expandable_segments:True");
    assert_ok(fac__cache_record_history(a, FAC_HISTORY_ALL, 0));
    assert_null(fac__cache_alloc(a, 2 * GIB, 0));
    assert_error(FAC_ERR_MEMORY, "out of memory");
    assert_ok(fac_cuda_set_memory_metadata("caf\xc3\xa9 \"x\""));
    char *p = get(21 * MIB), *q = get(100);
    assert_ok(fac_cuda_set_memory_metadata(NULL));
    fake_issue(&f, 1);
    assert_ok(fac_caching_allocator_record_stream(a, q, 1));
    give(q);
    *out_kept = p;
    return take();
}

static void S207_snapshot_as_json(void **state) {
    (void)state;
    char *kept;
    fac_memory_snapshot *s = varied(&kept);
    char *text = fac_memory_snapshot_json(s);
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    assert_non_null(root);
    const json_t *segments = json_object_get(root, "segments"), *first = json_array_get(segments, 0);
    assert_int_equal(json_array_size(segments), s->n_segments);
    assert_int_equal(json_integer_value(json_object_get(first, "total_size")), 40 * MIB);
    assert_string_equal(json_string_value(json_object_get(first, "segment_type")), "large");
    const json_t *traces = json_object_get(root, "device_traces");
    assert_int_equal(json_array_size(json_array_get(traces, 0)), s->n_events);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "allocator_settings"), "max_split_size")),
                     40 * MIB);
    json_decref(root);
    fac_string_free(text);
    fac_memory_snapshot_free(s);
    assert_null(fac_memory_snapshot_json(NULL));
    assert_error(FAC_ERR_ARGUMENT, "snapshot");
    give(kept);
    end();
}

static const char check_plain[] =
    "import pickle, sys\n"
    "s = pickle.load(open(sys.argv[1], 'rb'))\n"
    "assert sorted(s) == ['allocator_settings', 'device_traces', 'external_annotations', 'segments'], sorted(s)\n"
    "assert [g['total_size'] for g in s['segments']] == [2 << 20, 40 << 20] or \\\n"
    "       [g['total_size'] for g in s['segments']] == [40 << 20, 2 << 20], s['segments']\n"
    "for g in s['segments']:\n"
    "    assert sum(b['size'] for b in g['blocks']) == g['total_size']\n"
    "    assert g['segment_pool_id'] == (0, 0) and g['is_expandable'] is True\n"
    "states = {b['state'] for g in s['segments'] for b in g['blocks']}\n"
    "assert states == {'active_allocated', 'active_pending_free', 'inactive'}, states\n"
    "trace = s['device_traces'][0]\n"
    "assert [e['action'] for e in trace].count('oom') == 1\n"
    "assert [e['device_free'] for e in trace if e['action'] == 'oom'][0] == 1 << 30\n"
    "assert [e['user_metadata'] for e in trace if e['action'] == 'alloc'] == ['caf\\u00e9 \"x\"'] * 2\n"
    "assert all(fr['name'] and fr['filename'] and fr['line'] == 0 for e in trace for fr in e['frames'])\n"
    "c = s['allocator_settings']\n"
    "assert c['max_split_size'] == 40 << 20 and c['expandable_segments'] is False\n"
    "assert c['garbage_collection_threshold'] == 0.0 and c['roundup_power2_divisions']['64'] == 4, c\n";

/* Older viewers take the list of segments, newer ones the whole. */
static const char check_viewer[] =
    "import io, pickle, sys\n"
    "import torch.cuda._memory_viz as viz\n"
    "s = pickle.load(open(sys.argv[1], 'rb'))\n"
    "whole = hasattr(viz, 'trace_plot')\n"
    "data = s if whole else s['segments']\n"
    "same = lambda text: text\n"
    "for text in (viz.segments(data, format_flamegraph=same), viz.memory(data, format_flamegraph=same)):\n"
    "    lines = text.strip().splitlines()\n"
    "    assert sum(int(l.rsplit(' ', 1)[1]) for l in lines) == 42 << 20, lines\n"
    "    assert any('active_pending_free' in l for l in lines), lines\n"
    "if whole:\n"
    "    assert 'raise OutOfMemoryError' in viz.trace(s) and viz.trace_plot(s)\n"
    "else:\n"
    "    assert str(viz.stats(data)['total_size']) == '42.0MiB'\n";

/* Python's exit status for a script on a file; -1 without Python. */
static int python(const char *script, const char *name, const char *file) {
    char command[1024];
    const char *path = files_path(name);
    files_write(path, script, strlen(script));
    snprintf(command, sizeof command, "PATH=/usr/bin:$PATH; export PATH; unset LD_PRELOAD; python3 %s %s", path, file);
    int status = system(command);
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs `check` on a snapshot as a pickle, where `needed` runs; else says what is missing. */
static void check_pickle(const char *check, const char *needed, const char *missing) {
    char *kept;
    fac_memory_snapshot *s = varied(&kept);
    const char *file = files_path("snapshot.pickle");
    assert_ok(fac__snapshot_write(s, file));
    fac_memory_snapshot_free(s);
    give(kept);
    end();
    if (python(needed, "there.py", "2>/dev/null") != 0) {
        print_message("needs %s\n", missing);
        skip();
    }
    assert_int_equal(python(check, "check.py", file), 0);
}

static void S207_snapshot_as_a_pickle_that_python_reads(void **state) {
    (void)state;
    check_pickle(check_plain, "pass\n", "python3");
}

static void S207_snapshot_opens_in_pytorchs_viewer(void **state) {
    (void)state;
    check_pickle(check_viewer, "import torch.cuda._memory_viz\n", "PyTorch (python3-torch)");
}

static void S207_files_that_cannot_be_written_are_errors(void **state) {
    (void)state;
    begin(NULL);
    fac_memory_snapshot *s = take();
    assert_int_equal(fac__snapshot_write(s, "/nowhere/at/all.pickle"), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "/nowhere/at/all.pickle");
    assert_int_equal(fac__snapshot_write(s, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "file");
    assert_ok(fac__snapshot_write(s, files_path("empty.json")));
    fac_memory_snapshot_free(s);
    end();
}

static fac_status snapshot_body(void *context) {
    (void)context;
    fac_memory_snapshot *s = fac__alloc_zero(sizeof *s);
    if (!s) return fac_error();
    fac_buf out = {0};
    if (fac__cache_snapshot(a, s) == FAC_OK && fac__snapshot_pickle(s, &out) != FAC_OK)
        assert_int_equal(fac_error(), FAC_ERR_MEMORY);
    fac__buf_free(&out);
    fac_memory_snapshot_free(s);
    return fac_error();
}

static void S207_each_host_allocation_may_fail(void **state) {
    (void)state;
    begin(NULL);
    assert_ok(fac__cache_record_history(a, FAC_HISTORY_ALL, 3)); /* a full ring: it does not grow any more */
    char *p = get(1000);
    give(get(2 * MIB));
    for (int i = 0; i < 3; i++) fac_memory_snapshot_free(take()); /* its own events push the others out */
    support_fail_each_allocation(snapshot_body, NULL);
    give(p);
    end();
}

FAC_TEST_MAIN(FAC_TEST(S207_snapshot_lists_segments_and_blocks_with_their_states),
              FAC_TEST(S207_expandable_segments_show_what_is_mapped),
              FAC_TEST(X24_history_keeps_the_latest_events_with_call_sites), FAC_TEST(X25_trackers_hear_of_every_event),
              FAC_TEST(S207_snapshot_as_json), FAC_TEST(S207_snapshot_as_a_pickle_that_python_reads),
              FAC_TEST(S207_snapshot_opens_in_pytorchs_viewer), FAC_TEST(S207_files_that_cannot_be_written_are_errors),
              FAC_TEST(S207_each_host_allocation_may_fail))
