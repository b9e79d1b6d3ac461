/* Whether a file is compiled with AddressSanitizer or ThreadSanitizer: GCC and clang say it in ways of their own. */
#ifndef FAC_SRC_BASE_SANITIZERS_H
#define FAC_SRC_BASE_SANITIZERS_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FAC_UNDER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FAC_UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(FAC_UNDER_ASAN)
#define FAC_UNDER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(FAC_UNDER_TSAN)
#define FAC_UNDER_TSAN 1
#endif
#ifndef FAC_UNDER_ASAN
#define FAC_UNDER_ASAN 0
#endif
#ifndef FAC_UNDER_TSAN
#define FAC_UNDER_TSAN 0
#endif

#endif
