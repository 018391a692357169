/* link: cuda dl */
/*
 * Asks the driver again what a program asked when it started, and compares the answers.
 *
 * usage: replay RECORDED. The files under recorded/ were written by record.c on an H200 with driver
 * 580.159.04. Every line of cuGetProcAddress must have the same result, the same symbol status, and
 * an address or none as before; every name looked up must be there or not as before. Private tables
 * (cuGetExportTable) are counted only: what they hold is not public, so no simulation can have them.
 * The last line says how many questions were asked and how many answers differed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*proc_v1_fn)(const char *, void **, int, uint64_t);
typedef int (*proc_v2_fn)(const char *, void **, int, uint64_t, int *);

static int asked, differing, tables;

static void compare(const char *line, int same)
{
	asked++;
	if (!same) {
		differing++;
		printf("differs: %s", line);
	}
}

int main(int count, char **arguments)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	FILE *file = count == 2 ? fopen(arguments[1], "r") : 0;
	char line[512];
	proc_v1_fn proc_v1;
	proc_v2_fn proc_v2;

	if (!driver || !file) {
		fprintf(stderr, "usage: replay RECORDED, with libcuda.so.1 to be found: %s\n", dlerror());
		return 2;
	}
	proc_v1 = (proc_v1_fn)dlsym(driver, "cuGetProcAddress");
	proc_v2 = (proc_v2_fn)dlsym(driver, "cuGetProcAddress_v2");
	while (fgets(line, sizeof(line), file)) {
		char name[256], status_text[16], found[16];
		int version, result, status = -1, got;
		unsigned long long flags;
		void *address = 0;

		if (sscanf(line, "dlsym %255s %15s", name, found) == 2) {
			void *library = strncmp(name, "nvml", 4) ? driver : nvml;
			address = library ? dlsym(library, name) : 0;
			compare(line, !address == !!strcmp(found, "found"));
		} else if (sscanf(line, "proc %255s %d %llu %d %15s %15s", name, &version, &flags, &result,
				  status_text, found) == 6) {
			got = strcmp(status_text, "-") ? proc_v2(name, &address, version, flags, &status)
						       : proc_v1(name, &address, version, flags);
			compare(line, got == result && !address == !!strcmp(found, "found") &&
					      (status < 0 || atoi(status_text) < 0 || status == atoi(status_text)));
		} else if (sscanf(line, "proc %d %llu %d %15s %15s", &version, &flags, &result, status_text,
				  found) == 5) {
			got = proc_v2("", &address, version, flags, &status);
			compare(line, got == result && !address == !!strcmp(found, "found"));
		} else if (!strncmp(line, "table ", 6)) {
			tables++;
		} else {
			fprintf(stderr, "not a recorded line: %s", line);
			return 2;
		}
	}
	printf("asked %d, differing %d, private tables %d\n", asked, differing, tables);
	return differing != 0;
}
