//! Link arguments: the name programs ask for, and symbols bound inside the library, so that the
//! addresses `cuGetProcAddress` answers are its own even where another library is preloaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
