/* Processes that are attached and idle: hold PROCESSES. Says "ready" when all have a context and a
 * block, and ends them when standard input ends.
 */
#include "driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? number(argv[1], "PROCESSES") : 1;
    int ready[2], go_on[2];
    if (pipe(ready) || pipe(go_on)) {
        perror("pipe");
        return 3;
    }
    for (uint64_t i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 3;
        }
        if (child == 0) {
            struct driver driver;
            address_t address;
            char byte = 1;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(go_on[1]);
            driver_start(&driver);
            must(driver.alloc(&address, 2u << 20), "cuMemAlloc");
            if (write(ready[1], &byte, 1) != 1)
                _exit(3);
            while (read(go_on[0], &byte, 1) > 0)
                ;
            _exit(0);
        }
    }
    close(ready[1]);
    close(go_on[0]);
    uint64_t attached = 0;
    char byte;
    while (attached < count && read(ready[0], &byte, 1) == 1)
        attached++;
    printf("{\"ready\":%llu}\n", (unsigned long long)attached);
    fflush(stdout);
    wait_for_end_of_input();
    close(go_on[1]);
    while (wait(NULL) > 0)
        ;
    return attached == count ? 0 : 3;
}
