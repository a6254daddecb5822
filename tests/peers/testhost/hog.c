/* Holds MIB mebibytes of shared anonymous memory, which is how pinned memory is accounted, until it is stopped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == 0 || memory == MAP_FAILED) return 1;
    memset(memory, 1, bytes);
    puts("holding");
    fflush(stdout);
    for (;;) pause();
}
