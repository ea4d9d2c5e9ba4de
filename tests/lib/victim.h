/*
 * victim.h - a trainer process that dies, or stops, at an exact place.
 *
 * What     Attaches through the agent library with two ranks and runs steps on zeros.
 *          Where its word says so, rank 1 sends a signal to its own process instead of
 *          running a pass, so that all others are inside that pass and wait for it.
 *          A test program starts itself again as this: hyd_victim_main(argc, argv) does
 *          it and does not return when argv[1] is "--victim".
 */
#ifndef HYD_TESTS_LIB_VICTIM_H
#define HYD_TESTS_LIB_VICTIM_H

/* argv: PROGRAM --victim WHERE SIGNAL ADDRESS NODE; WHERE: forward, backward, report */
void hyd_victim_main(int argc, char **argv);

#endif
