//! A loaded object and its symbol table, read where they lie.
//!
//! Only tables that the dynamic linker itself has accepted are read. Does not find objects; that is [`super::loaded`]'s.

use core::ffi::{CStr, c_char, c_void};
use core::marker::PhantomData;
use core::sync::atomic::AtomicPtr;

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_SONAME: u64 = 14;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const DT_DEBUG: u64 = 21;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
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

/// Documented fields of the dynamic linker's entry of an object; its handle is the entry's address.
#[repr(C)]
pub(super) struct LinkMap {
    base: usize,
    path: *const c_char,
    dynamic: *const c_void,
    pub(super) next: AtomicPtr<LinkMap>,
}

/// Where the dynamic linker has its words for debuggers, as it tells the program whose `count` headers lie at `headers`.
///
/// # Safety
/// 1. So many headers of a loaded program lie there, for good.
pub(super) unsafe fn debug_entry(headers: *const libc::Elf64_Phdr, count: usize) -> Option<usize> {
    // SAFETY: by the first condition.
    let all = unsafe { core::slice::from_raw_parts(headers, count) };
    let address = |kind| {
        let header = all.iter().find(|header| header.p_type == kind)?;
        usize::try_from(header.p_vaddr).ok()
    };
    let base = address(PT_PHDR).map_or(0, |own| headers.addr().wrapping_sub(own));
    let dynamic = base.wrapping_add(address(PT_DYNAMIC)?);
    let mut entry: *const Dynamic = core::ptr::with_exposed_provenance(dynamic);
    loop {
        // SAFETY: not beyond the entry with tag zero.
        let Dynamic { tag, value } = unsafe { entry.read() };
        match tag {
            0 => return None,
            DT_DEBUG => return usize::try_from(value).ok(),
            _ => entry = entry.wrapping_add(1),
        }
    }
}

/// The last part of a path.
pub(super) fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

impl<'a> Object<'a> {
    /// # Safety
    /// 1. `info` comes from the dynamic linker, during its call.
    pub(super) unsafe fn of(info: &'a libc::dl_phdr_info) -> Option<Self> {
        if info.dlpi_phdr.is_null() {
            return None;
        }
        let base = usize::try_from(info.dlpi_addr).ok()?;
        // SAFETY: the linker's own array of that length.
        let headers =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let dynamic = headers.iter().find(|header| header.p_type == PT_DYNAMIC)?;
        let dynamic = base.wrapping_add(usize::try_from(dynamic.p_vaddr).ok()?);
        let dynamic = core::ptr::with_exposed_provenance(dynamic);
        // SAFETY: 1. and 2. a loaded object's.
        unsafe { Self::at(base, info.dlpi_name, headers, dynamic) }
    }

    /// The same of the linker's own entry, which says nothing of the object's extent.
    ///
    /// # Safety
    /// 1. `map` is the entry of an object that stays loaded.
    pub(super) unsafe fn of_map(map: &'a LinkMap) -> Option<Self> {
        // SAFETY: 1. and 2. by the first condition.
        unsafe { Self::at(map.base, map.path, &[], map.dynamic.cast()) }
    }

    /// # Safety
    /// 1. `name` is null or the linker's string.
    /// 2. `dynamic` is null, or the dynamic section of the object whose addresses count from `base`.
    unsafe fn at(
        base: usize,
        name: *const c_char,
        headers: &'a [libc::Elf64_Phdr],
        dynamic: *const Dynamic,
    ) -> Option<Self> {
        if dynamic.is_null() {
            return None;
        }
        // SAFETY: by the first condition.
        let path = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
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
        // SAFETY: 1. by the second condition.
        unsafe { object.read(dynamic) };
        (!object.symbols.is_null() && !object.strings.is_null()).then_some(object)
    }

    /// # Safety
    /// 1. `entry` is the object's dynamic section, which a zero tag ends and whose tables lie where it says.
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

    /// Whether it is the C library or a part of glibc's: before glibc 2.34 some functions lived in libdl or libpthread.
    pub(super) fn is_c_library(&self) -> bool {
        matches!(self.name(), b"libc.so.6" | b"libdl.so.2" | b"libpthread.so.0")
            || self.file_name().starts_with(b"ld-musl-")
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
    ///
    /// # Safety
    /// 1. `index` comes from a hash table of this object.
    unsafe fn symbol(&self, index: u32) -> Option<(&[u8], usize)> {
        // SAFETY: by the first condition the table has it.
        let symbol = unsafe { self.symbols.wrapping_add(index as usize).read() };
        if symbol.st_shndx == 0 || symbol.st_value == 0 || symbol.st_info & 0xf != FUNCTION {
            return None;
        }
        let name = self.string(symbol.st_name as usize);
        Some((name, self.base.wrapping_add(usize::try_from(symbol.st_value).ok()?)))
    }

    /// # Safety
    /// 1. `index` comes from a hash table of this object.
    unsafe fn is_default_version(&self, index: u32) -> bool {
        if self.versions.is_null() {
            return true;
        }
        // SAFETY: by the first condition there is such a symbol, and for each an entry.
        let version = unsafe { self.versions.wrapping_add(index as usize).read() };
        version & HIDDEN_VERSION == 0
    }

    /// Calls `visit` with hash (lowest bit clear), name and address of every function it exports.
    pub(super) fn for_each_function(&self, mut visit: impl FnMut(u32, &[u8], usize)) {
        if let Some(table) = self.gnu_table() {
            for bucket in 0..table.buckets {
                let each = |hash, index| {
                    // SAFETY: 1. the table's.
                    if let Some((name, address)) = unsafe { self.symbol(index) } {
                        visit(hash, name, address);
                    }
                    false
                };
                // SAFETY: 1. below the count.
                unsafe { table.chain(bucket, each) };
            }
        } else {
            for index in 1..self.sysv_count() {
                // SAFETY: 1. below the table's count.
                if let Some((name, address)) = unsafe { self.symbol(index) } {
                    visit(super::tables::hash(name), name, address);
                }
            }
        }
    }

    /// The address of function `name`, of its default version where it has several.
    pub(super) fn function(&self, name: &[u8]) -> Option<usize> {
        let mut found = None;
        let Some(table) = self.gnu_table() else {
            // SAFETY: 1. below the table's count.
            let _ = (1..self.sysv_count())
                .any(|index| unsafe { self.consider(index, name, &mut found) });
            return found;
        };
        let full = name
            .iter()
            .fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let bucket = full.checked_rem(table.buckets)?;
        let each = |hash, index| {
            // SAFETY: 1. the table's.
            hash == full & !1 && unsafe { self.consider(index, name, &mut found) }
        };
        // SAFETY: 1. below the count.
        unsafe { table.chain(bucket, each) };
        found
    }

    /// Notes the address of symbol `index` where it is function `name`; true at its default version, which is the one
    /// to take.
    ///
    /// # Safety
    /// 1. `index` comes from a hash table of this object.
    // Not inlined: names are looked for in two tables, and seldom.
    #[inline(never)]
    unsafe fn consider(&self, index: u32, name: &[u8], found: &mut Option<usize>) -> bool {
        // SAFETY: 1. by the first condition.
        let symbol = unsafe { self.symbol(index) };
        let Some((_, address)) = symbol.filter(|(other, _)| *other == name) else { return false };
        // SAFETY: 1. by the first condition.
        let is_default = unsafe { self.is_default_version(index) };
        if is_default || found.is_none() {
            *found = Some(address);
        }
        is_default
    }

    /// So many symbols the table of System V has; none without one.
    fn sysv_count(&self) -> u32 {
        if self.sysv_hash.is_null() {
            return 0;
        }
        // SAFETY: not null, so the object's table (`of`), whose second word counts the symbols.
        unsafe { self.sysv_hash.wrapping_add(1).read() }
    }

    fn gnu_table(&self) -> Option<GnuTable<'_>> {
        if self.gnu_hash.is_null() {
            return None;
        }
        // SAFETY: not null, so the object's table (`of`), which begins with four words.
        let [buckets, first, bloom_words, _] = unsafe { self.gnu_hash.cast::<[u32; 4]>().read() };
        let starts = self.gnu_hash.wrapping_add(4).wrapping_add(2 * bloom_words as usize);
        let chains = starts.wrapping_add(buckets as usize);
        Some(GnuTable { buckets, first, starts, chains, object: PhantomData })
    }
}

/// A loaded object's GNU hash table: for each bucket the first symbol of a run, whose end has the lowest hash bit
/// set.
struct GnuTable<'a> {
    buckets: u32,
    first: u32,
    starts: *const u32,
    chains: *const u32,
    object: PhantomData<&'a ()>,
}

impl GnuTable<'_> {
    /// Calls `visit` with hash (lowest bit clear) and symbol, until it returns true.
    ///
    /// # Safety
    /// 1. `bucket` is below the count of buckets.
    unsafe fn chain(&self, bucket: u32, mut visit: impl FnMut(u32, u32) -> bool) {
        // SAFETY: by the first condition.
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
