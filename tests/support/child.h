/* A part of a test in a process of its own. */
#ifndef FAC_TESTS_CHILD_H
#define FAC_TESTS_CHILD_H

/* Forks and runs the body in the child, which is killed if that takes longer than a minute. Returns what the body returned, or
   100 and the number of the signal that ended the child. */
int in_child(int (*body)(void));

#endif
