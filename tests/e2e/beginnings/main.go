package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
typedef int (*init_fn)(unsigned);
static int begin(void) {
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	init_fn init = driver ? (init_fn)dlsym(driver, "cuInit") : 0;
	return init ? init(0) : 3;
}
*/
import "C"
import "fmt"

func main() { fmt.Println("init", C.begin()) }
