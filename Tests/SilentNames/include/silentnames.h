#ifndef SILENTNAMES_H
#define SILENTNAMES_H

/* Names that begin with "silent." have name servers that do not answer: whoever looks one up waits. */

/* How many wait. */
int silentnames_waiting(void);

/* Ends the wait of all of them, with a failure. */
void silentnames_release(void);

#endif
