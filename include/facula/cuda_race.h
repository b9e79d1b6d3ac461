/* The race checker of CUDA streams: finds work on one stream that reads or writes memory which another stream may still
   be using, whether or not the values happen to come out right. On simulated and real devices alike.
   source: the model is torch.cuda._sanitizer; vector clocks as in Flanagan and Freund 2009 (FastTrack). */
#ifndef FACULA_CUDA_RACE_H
#define FACULA_CUDA_RACE_H

#include <facula/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to do on a race. At start FACULA_CUDA_SANITIZER says it: 1 or report, error, else off. */
typedef enum fac_race_mode {
    FAC_RACE_OFF,
    FAC_RACE_REPORT, /* hand a text to the warning handler, go on */
    FAC_RACE_ERROR   /* the later of the two calls fails with STATE, and is not queued */
} fac_race_mode;
/* Sets the mode. What was queued before is not known. Turn it on or off while no other thread uses CUDA. */
FAC_API FAC_MUST fac_status fac_cuda_set_race_mode(fac_race_mode mode);
FAC_API fac_race_mode fac_cuda_race_mode(void);

/* One of the two sides of a race. Strings live until fac_cuda_race_reset. */
typedef struct fac_race_side {
    const char *op;       /* "add", "copy", a kernel's name */
    const char *argument; /* "" if not known */
    bool write;
    fac_stream stream; /* unset: the host */
    const char *stack; /* call site, innermost first, one frame per line; "" if not known */
} fac_race_side;
typedef struct fac_race {
    fac_race_side earlier, later;
    const void *address; /* first byte in common */
    const char *text;    /* all of it in words, with the wait that is missing */
} fac_race;
/* Races found since the last reset (each pair of call sites once), and the i-th of them; false if there is none. */
FAC_API size_t fac_cuda_race_count(void);
FAC_API bool fac_cuda_race_get(size_t i, fac_race *out_race);
/* Forgets the races that were found, not what is known of memory and streams. */
FAC_API void fac_cuda_race_reset(void);

#ifdef __cplusplus
}
#endif
#ifndef FACULA_BUILDING
#include <facula/cuda_race_macros.h>
#endif
#endif
