//! The objects loaded in this process and their symbol tables, without the dynamic linker's help.
//!
//! Asking `dlsym` would run through ourselves, set `dlerror` and may allocate; `dl_iterate_phdr`
//! does neither, and holds the linker's lock while an object is looked at, so that none goes away.
//! Only tables that the dynamic linker itself has accepted are read.

use core::ffi::{CStr, c_char, c_int, c_void};

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_SONAME: u64 = 14;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const HIDDEN_VERSION: u16 = 0x8000;
const FUNCTION: u8 = 2;

#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

/// One loaded object.
#[derive(Debug)]
pub(super) struct Object<'a> {
    base: usize,
    path: &'a CStr,
    headers: &'a [libc::Elf64_Phdr],
    symbols: *const libc::Elf64_Sym,
    strings: *const c_char,
    string_bytes: usize,
    soname: usize,
    gnu_hash: *const u32,
    sysv_hash: *const u32,
    versions: *const u16,
}

/// Looks at every loaded object, in the order they were loaded, until `visit` returns true.
pub(super) fn walk<F: FnMut(&Object<'_>) -> bool>(mut visit: F) {
    unsafe extern "C" fn one<F: FnMut(&Object<'_>) -> bool>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: `walk` passes its closure, which nothing else uses meanwhile.
        let visit = unsafe { &mut *visit.cast::<F>() };
        // SAFETY: the dynamic linker passes a description valid for the call.
        let info = unsafe { &*info };
        // SAFETY: it comes from the dynamic linker, during its call.
        let object = unsafe { Object::of(info) };
        c_int::from(object.is_some_and(|object| visit(&object)))
    }
    // SAFETY: the callback's data is the closure it expects, alive through the call.
    unsafe { libc::dl_iterate_phdr(Some(one::<F>), (&raw mut visit).cast()) };
}

/// The last part of a path.
pub(super) fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

impl<'a> Object<'a> {
    /// # Safety
    /// `info` must come from the dynamic linker, during its call.
    unsafe fn of(info: &'a libc::dl_phdr_info) -> Option<Self> {
        if info.dlpi_phdr.is_null() {
            return None;
        }
        let base = usize::try_from(info.dlpi_addr).ok()?;
        // SAFETY: the linker's own array of that length.
        let headers =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let path = if info.dlpi_name.is_null() {
            c""
        } else {
            // SAFETY: the linker's string.
            unsafe { CStr::from_ptr(info.dlpi_name) }
        };
        let dynamic = headers.iter().find(|header| header.p_type == PT_DYNAMIC)?;
        let dynamic = base.wrapping_add(usize::try_from(dynamic.p_vaddr).ok()?);
        let mut object = Self {
            base,
            path,
            headers,
            symbols: core::ptr::null(),
            strings: core::ptr::null(),
            string_bytes: 0,
            soname: 0,
            gnu_hash: core::ptr::null(),
            sysv_hash: core::ptr::null(),
            versions: core::ptr::null(),
        };
        // SAFETY: a loaded object's dynamic section, ended by a zero tag.
        unsafe { object.read(core::ptr::with_exposed_provenance(dynamic)) };
        (!object.symbols.is_null() && !object.strings.is_null()).then_some(object)
    }

    /// # Safety
    /// `entry` must be a dynamic section.
    unsafe fn read(&mut self, mut entry: *const Dynamic) {
        loop {
            // SAFETY: not beyond the entry with tag zero.
            let Dynamic { tag, value } = unsafe { entry.read() };
            let value = usize::try_from(value).unwrap_or(0);
            match tag {
                0 => return,
                DT_STRTAB => self.strings = self.pointer(value),
                DT_SYMTAB => self.symbols = self.pointer(value),
                DT_STRSZ => self.string_bytes = value,
                DT_SONAME => self.soname = value,
                DT_GNU_HASH => self.gnu_hash = self.pointer(value),
                DT_HASH => self.sysv_hash = self.pointer(value),
                DT_VERSYM => self.versions = self.pointer(value),
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
    }

    /// The C library relocates these addresses for most objects; the kernel's own (vdso) stay
    /// offsets.
    fn pointer<T>(&self, value: usize) -> *const T {
        let address = if value < self.base { self.base.wrapping_add(value) } else { value };
        core::ptr::with_exposed_provenance(address)
    }

    /// The object's own name for itself, or the last part of its path.
    pub(super) fn name(&self) -> &[u8] {
        if self.soname != 0 {
            return self.string(self.soname);
        }
        self.file_name()
    }

    /// Its path, which lies where it does while the object is loaded.
    pub(super) fn path(&self) -> *const c_char {
        self.path.as_ptr()
    }

    /// The last part of its path.
    pub(super) fn file_name(&self) -> &[u8] {
        last_part(self.path.to_bytes())
    }

    /// Whether `address` lies in it.
    pub(super) fn contains(&self, address: usize) -> bool {
        self.headers.iter().filter(|header| header.p_type == PT_LOAD).any(|header| {
            let start = self.base.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or(0));
            let length = usize::try_from(header.p_memsz).unwrap_or(0);
            address.wrapping_sub(start) < length
        })
    }

    fn string(&self, offset: usize) -> &[u8] {
        if offset >= self.string_bytes {
            return &[];
        }
        // SAFETY: within the string table, whose last byte is zero.
        unsafe { CStr::from_ptr(self.strings.wrapping_add(offset)) }.to_bytes()
    }

    /// The symbol at `index`: its name and address, if it is a function defined here.
    fn symbol(&self, index: u32) -> Option<(&[u8], usize)> {
        // SAFETY: indices come from the object's own hash tables.
        let symbol = unsafe { self.symbols.wrapping_add(index as usize).read() };
        if symbol.st_shndx == 0 || symbol.st_value == 0 || symbol.st_info & 0xf != FUNCTION {
            return None;
        }
        let name = self.string(symbol.st_name as usize);
        Some((name, self.base.wrapping_add(usize::try_from(symbol.st_value).ok()?)))
    }

    fn is_default_version(&self, index: u32) -> bool {
        if self.versions.is_null() {
            return true;
        }
        // SAFETY: one entry for each symbol.
        let version = unsafe { self.versions.wrapping_add(index as usize).read() };
        version & HIDDEN_VERSION == 0
    }

    /// Calls `visit` with hash (lowest bit clear), name and address of every function it exports.
    pub(super) fn for_each_function(&self, mut visit: impl FnMut(u32, &[u8], usize)) {
        if !self.gnu_hash.is_null() {
            let table = self.gnu_table();
            for bucket in 0..table.buckets {
                table.chain(self, bucket, |hash, index| {
                    if let Some((name, address)) = self.symbol(index) {
                        visit(hash, name, address);
                    }
                    false
                });
            }
        } else if !self.sysv_hash.is_null() {
            // SAFETY: the second word counts the symbols.
            let count = unsafe { self.sysv_hash.wrapping_add(1).read() };
            for index in 1..count {
                if let Some((name, address)) = self.symbol(index) {
                    visit(super::tables::hash(name), name, address);
                }
            }
        }
    }

    /// The address of function `name`, of its default version where it has several.
    pub(super) fn function(&self, name: &[u8]) -> Option<usize> {
        let mut found = None;
        let mut consider = |index: u32| {
            let Some((_, address)) = self.symbol(index).filter(|(other, _)| *other == name) else {
                return false;
            };
            let default = self.is_default_version(index);
            if default || found.is_none() {
                found = Some(address);
            }
            default
        };
        if self.gnu_hash.is_null() {
            if !self.sysv_hash.is_null() {
                // SAFETY: the second word counts the symbols.
                let count = unsafe { self.sysv_hash.wrapping_add(1).read() };
                let _ = (1..count).any(consider);
            }
            return found;
        }
        let full = name
            .iter()
            .fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let table = self.gnu_table();
        let bucket = full.checked_rem(table.buckets)?;
        table.chain(self, bucket, |hash, index| hash == full & !1 && consider(index));
        found
    }

    fn gnu_table(&self) -> GnuTable {
        // SAFETY: the table's header of four words.
        let [buckets, first, bloom_words, _] = unsafe { self.gnu_hash.cast::<[u32; 4]>().read() };
        let starts = self.gnu_hash.wrapping_add(4).wrapping_add(2 * bloom_words as usize);
        GnuTable { buckets, first, starts, chains: starts.wrapping_add(buckets as usize) }
    }
}

/// A GNU hash table: for each bucket the first symbol of a run, whose end has the lowest hash bit
/// set.
struct GnuTable {
    buckets: u32,
    first: u32,
    starts: *const u32,
    chains: *const u32,
}

impl GnuTable {
    /// Calls `visit` with hash (lowest bit clear) and symbol, until it returns true.
    fn chain(&self, _of: &Object<'_>, bucket: u32, mut visit: impl FnMut(u32, u32) -> bool) {
        // SAFETY: `bucket` is below the count of buckets.
        let mut index = unsafe { self.starts.wrapping_add(bucket as usize).read() };
        if index < self.first {
            return;
        }
        loop {
            let at = self.chains.wrapping_add(index.wrapping_sub(self.first) as usize);
            // SAFETY: within the run that the end mark closes.
            let hash = unsafe { at.read() };
            if visit(hash & !1, index) || hash & 1 != 0 {
                return;
            }
            index = index.wrapping_add(1);
        }
    }
}
