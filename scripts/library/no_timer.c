/* Takes a program's interval timer away. PostgreSQL's would run out in the middle of a statement, as
   a traced run is slow, and then the run is not the same each time; under QEMU 7.2 it may crash. */

#include <sys/time.h>

int setitimer(__itimer_which_t which, const struct itimerval *set, struct itimerval *old) {
  (void)which;
  (void)set;
  (void)old;
  return 0;
}
