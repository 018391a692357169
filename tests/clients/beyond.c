/* link: cuda dl */
/*
 * A program that takes memory behind the library's back: it reads the driver's own symbol table and
 * calls cuMemAlloc by the address it finds there. Once the audit has seen it, the limit must cover
 * that memory too. usage: beyond HIDDEN_BYTES ASKED_BYTES WAIT_MS; prints both results.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef CUresult (*alloc_fn)(CUdeviceptr *, size_t);

/* The driver's own cuMemAlloc_v2, from its dynamic symbols. */
static int find(struct dl_phdr_info *info, size_t size, void *into)
{
	const ElfW(Sym) *symbols = 0;
	const char *names = 0;
	const ElfW(Word) *hash = 0;

	(void)size;
	if (!strstr(info->dlpi_name, "libcuda.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		const ElfW(Dyn) *dynamic = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		for (; dynamic->d_tag != DT_NULL; dynamic++) {
			ElfW(Addr) value = dynamic->d_un.d_ptr;
			if (value < info->dlpi_addr)
				value += info->dlpi_addr;
			if (dynamic->d_tag == DT_SYMTAB)
				symbols = (void *)value;
			else if (dynamic->d_tag == DT_STRTAB)
				names = (void *)value;
			else if (dynamic->d_tag == DT_STRSZ)
				hash = (void *)1;
		}
	}
	/* The string table follows the symbols in every linker's layout. */
	for (const ElfW(Sym) *symbol = symbols; hash && (const char *)symbol < names; symbol++)
		if (!strcmp(names + symbol->st_name, "cuMemAlloc_v2")) {
			*(alloc_fn *)into = (alloc_fn)(info->dlpi_addr + symbol->st_value);
			return 1;
		}
	return 0;
}

int main(int count, char **arguments)
{
	alloc_fn hidden = 0;
	CUcontext context;
	CUdeviceptr block;

	if (count != 4)
		return 2;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 3;
	dl_iterate_phdr(find, &hidden);
	if (!hidden)
		return 4;
	printf("hidden %d\n", hidden(&block, strtoull(arguments[1], 0, 10)));
	usleep(1000 * atoi(arguments[3]));
	printf("asked %d\n", cuMemAlloc(&block, strtoull(arguments[2], 0, 10)));
	return 0;
}
