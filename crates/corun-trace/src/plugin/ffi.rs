//! The functions of QEMU's plug-in interface, version 1, that the tracer uses.
//!
//! Debian packages no header for it, so they are declared here. They are looked up in the running
//! QEMU when the plug-in is loaded and not when it is linked, so that the same library code also
//! links into programs that only start the tracer.
#![allow(unsafe_code)] // Calls across the C interface and reads of what it points to.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The version of the interface.
pub(super) const VERSION: c_int = 1;
/// Callback flag: it reads no registers.
const NO_REGISTERS: c_int = 0;
/// A memory callback for loads and stores. Asking for one kind only does not work: QEMU 7.2 calls
/// a callback for stores on loads too, and one for loads on stores only.
const LOADS_AND_STORES: c_int = 3;

pub(super) type Id = u64;
pub(super) type BlockRun = extern "C" fn(c_uint, *mut c_void);
pub(super) type MemoryAccess = extern "C" fn(c_uint, c_uint, u64, *mut c_void);
pub(super) type Translate = extern "C" fn(Id, *mut c_void);
pub(super) type AtExit = extern "C" fn(Id, *mut c_void);
pub(super) type Syscall = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(super) type SyscallReturn = extern "C" fn(Id, c_uint, i64, i64);

/// The head of what QEMU says of itself when it loads a plug-in.
#[repr(C)]
pub(super) struct Info {
    target_name: *const c_char,
    version_min: c_int,
    version_cur: c_int,
    system_emulation: bool,
}

impl Info {
    /// The guest's instruction set, and whether a whole system is emulated.
    pub(super) fn target(&self) -> (String, bool) {
        // SAFETY: QEMU gives a terminated string that lives as long as it runs.
        let name = unsafe { CStr::from_ptr(self.target_name) };
        (name.to_string_lossy().into_owned(), self.system_emulation)
    }
}

macro_rules! interface {
    ($($field:ident: $name:literal = fn($($kind:ty),*) $(-> $result:ty)?;)*) => {
        /// QEMU's functions.
        #[derive(Clone, Copy)]
        pub(super) struct Qemu {
            $($field: unsafe extern "C" fn($($kind),*) $(-> $result)?,)*
        }

        impl Qemu {
            /// Looks the functions up in this process; `None` outside of QEMU.
            pub(super) fn find() -> Option<Self> {
                Some(Self {
                    $($field: {
                        // SAFETY: the name is terminated; looking up has no other condition.
                        let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, $name.as_ptr()) };
                        if at.is_null() {
                            return None;
                        }
                        // SAFETY: interface version 1 gives the symbol this type.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($kind),*) $(-> $result)?,
                            >(at)
                        }
                    },)*
                })
            }
        }
    };
}

interface! {
    register_translate: c"qemu_plugin_register_vcpu_tb_trans_cb" = fn(Id, Translate);
    register_block_run: c"qemu_plugin_register_vcpu_tb_exec_cb"
        = fn(*mut c_void, BlockRun, c_int, *mut c_void);
    register_memory: c"qemu_plugin_register_vcpu_mem_cb"
        = fn(*mut c_void, MemoryAccess, c_int, c_int, *mut c_void);
    register_at_exit: c"qemu_plugin_register_atexit_cb" = fn(Id, AtExit, *mut c_void);
    register_syscall: c"qemu_plugin_register_vcpu_syscall_cb" = fn(Id, Syscall);
    register_syscall_return: c"qemu_plugin_register_vcpu_syscall_ret_cb" = fn(Id, SyscallReturn);
    block_length: c"qemu_plugin_tb_n_insns" = fn(*const c_void) -> usize;
    block_instruction: c"qemu_plugin_tb_get_insn" = fn(*const c_void, usize) -> *mut c_void;
    access_is_store: c"qemu_plugin_mem_is_store" = fn(c_uint) -> bool;
    access_size_shift: c"qemu_plugin_mem_size_shift" = fn(c_uint) -> c_uint;
    instruction_data: c"qemu_plugin_insn_data" = fn(*const c_void) -> *const u8;
    instruction_size: c"qemu_plugin_insn_size" = fn(*const c_void) -> usize;
    instruction_address: c"qemu_plugin_insn_vaddr" = fn(*const c_void) -> u64;
    instruction_place: c"qemu_plugin_insn_haddr" = fn(*const c_void) -> *const c_void;
}

/// A block that QEMU is translating, valid during that callback only.
pub(super) struct GuestBlock<'a> {
    qemu: &'a Qemu,
    block: *mut c_void,
}

impl Qemu {
    /// Asks for the callbacks that every traced process needs.
    pub(super) fn register(
        &self,
        id: Id,
        translate: Translate,
        syscall: Option<(Syscall, SyscallReturn)>,
        at_exit: AtExit,
    ) {
        // SAFETY: `id` is the one QEMU gave this plug-in, and the callbacks live as long as it.
        unsafe {
            (self.register_translate)(id, translate);
            (self.register_at_exit)(id, at_exit, std::ptr::null_mut());
            if let Some((before, after)) = syscall {
                (self.register_syscall)(id, before);
                (self.register_syscall_return)(id, after);
            }
        }
    }

    /// Does an access write, by what its callback was told?
    pub(super) fn is_store(&self, info: c_uint) -> bool {
        // SAFETY: takes a number apart.
        unsafe { (self.access_is_store)(info) }
    }

    /// Bytes of an access, by what its callback was told.
    pub(super) fn access_bytes(&self, info: c_uint) -> u64 {
        // SAFETY: takes a number apart.
        1 << unsafe { (self.access_size_shift)(info) }
    }

    /// The block of a translation callback.
    ///
    /// # Safety
    /// `block` must be what QEMU handed to the callback that is running.
    pub(super) unsafe fn guest_block(&self, block: *mut c_void) -> GuestBlock<'_> {
        GuestBlock { qemu: self, block }
    }
}

impl GuestBlock<'_> {
    /// Instructions in it.
    pub(super) fn len(&self) -> usize {
        // SAFETY: the block is valid for the life of `self`.
        unsafe { (self.qemu.block_length)(self.block) }
    }

    /// Address and bytes of an instruction.
    pub(super) fn instruction(&self, index: usize) -> (u64, Vec<u8>) {
        // SAFETY: the block is valid, QEMU checks the index, and the bytes it points to are as
        // many as it says.
        unsafe {
            let one = (self.qemu.block_instruction)(self.block, index);
            let size = (self.qemu.instruction_size)(one);
            let bytes = std::slice::from_raw_parts((self.qemu.instruction_data)(one), size);
            ((self.qemu.instruction_address)(one), bytes.to_vec())
        }
    }

    /// Where the guest's address 0 lies in this process, by an instruction's two addresses.
    pub(super) fn guest_base(&self) -> Option<u64> {
        // SAFETY: the block is valid, and has a first instruction where QEMU gives one.
        unsafe {
            let one = (self.qemu.block_instruction)(self.block, 0);
            let place = (self.qemu.instruction_place)(one).addr() as u64;
            let address = (self.qemu.instruction_address)(one);
            (place != 0).then(|| place.wrapping_sub(address))
        }
    }

    /// Calls `callback` whenever the block runs, with `data` as a pointer that is none.
    pub(super) fn on_run(&self, callback: BlockRun, data: usize) {
        let data = std::ptr::without_provenance_mut(data);
        // SAFETY: the block is valid; the callback lives as long as the plug-in.
        unsafe { (self.qemu.register_block_run)(self.block, callback, NO_REGISTERS, data) }
    }

    /// Calls `callback` for every access of an instruction, with `data` as above.
    pub(super) fn on_access(&self, index: usize, callback: MemoryAccess, data: usize) {
        let data = std::ptr::without_provenance_mut(data);
        // SAFETY: the block is valid, and QEMU checks the index.
        unsafe {
            let one = (self.qemu.block_instruction)(self.block, index);
            (self.qemu.register_memory)(one, callback, NO_REGISTERS, LOADS_AND_STORES, data);
        }
    }
}
