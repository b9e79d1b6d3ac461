/* A gate in front of what a thread must not finish yet: while it is closed, those who come wait, and the test knows how many do. It
   opens by itself after twenty seconds, for the sake of the tests after one that failed. One of a program. */
#ifndef FAC_TESTS_GATE_H
#define FAC_TESTS_GATE_H

void gate_close(void);
void gate_open(void);
/* Waits until it is open. */
void gate_pass(void);
/* How many wait now. */
int gate_waiting(void);

#endif
