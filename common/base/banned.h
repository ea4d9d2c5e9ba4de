/*
 * banned.h - library functions that must not be used, made compile errors.
 *
 * What     Include last in a .c file of ours. Each name has a safer twin: snprintf for
 *          sprintf and strcpy, strtol for atoi, hyd_rng for rand.
 */
#ifndef HYD_COMMON_BASE_BANNED_H
#define HYD_COMMON_BASE_BANNED_H

#pragma GCC poison strcpy strcat sprintf vsprintf gets atoi atol atof strtok rand srand

#endif
