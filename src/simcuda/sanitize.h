/* What ThreadSanitizer is told. The simulator's own lock would order everything with everything and hide the races of
   the code under test; so what happens under the lock is kept from the sanitizer, and the order that streams, events
   and waits promise is stated instead. Without the sanitizer all of this is nothing. */
#ifndef FAC_SRC_SIMCUDA_SANITIZE_H
#define FAC_SRC_SIMCUDA_SANITIZE_H

#ifdef SIM_TSAN
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void __tsan_acquire(void *p);
void __tsan_release(void *p);

static inline void sim_hide(void) {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
static inline void sim_show(void) {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
/* The calling thread comes after what was released at p; what it did comes before later acquires. With the lock held.
   */
static inline void sim_acquire(void *p) {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    __tsan_acquire(p);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
static inline void sim_release(void *p) {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    __tsan_release(p);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
#else
static inline void sim_hide(void) {}
static inline void sim_show(void) {}
static inline void sim_acquire(void *p) { (void)p; }
static inline void sim_release(void *p) { (void)p; }
#endif

#endif
