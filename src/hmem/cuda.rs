// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of NVIDIA devices, as the driver's library describes it: the CUDA Driver API, "Unified Addressing".
//!
//! The program uses the same driver library. It is not initialised here: in a program that has not initialised it, no
//! address belongs to a device. Memory of other devices (ROCr, Level Zero, Neuron, SynapseAI) is not detected.
//!
//! Trusted with: calling two functions of the driver by the signatures that its manual gives them.

use core::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use sys::shared_object::SharedObject;

/// The driver. Several threads may call it at the same time.
pub struct Cuda {
    attribute: GetAttribute,
    range: GetRange,
}

/// An allocation of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    pub base: usize,
    pub len: usize,
    /// Number of its device.
    pub ordinal: i32,
    /// The driver moves the memory between host and devices, and the processor may access it.
    pub managed: bool,
}

/// cuPointerGetAttribute: place of the result, attribute, address.
type GetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;
/// cuMemGetAddressRange: returns start and length of the allocation that contains an address.
type GetRange = unsafe extern "C" fn(*mut u64, *mut usize, u64) -> c_int;

/// CUpointer_attribute.
const MEMORY_TYPE: c_int = 2;
const BUFFER_ID: c_int = 7;
const IS_MANAGED: c_int = 8;
const DEVICE_ORDINAL: c_int = 9;
/// CU_MEMORYTYPE_DEVICE.
const DEVICE: u64 = 2;

impl Cuda {
    /// Returns the driver of this machine, which is opened at the first call and stays open, or the reason why there is
    /// none.
    pub fn driver() -> Result<&'static Cuda, &'static str> {
        static DRIVER: OnceLock<Result<Cuda, String>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Cuda::open);
        driver.as_ref().map_err(String::as_str)
    }

    fn open() -> Result<Cuda, String> {
        let library = SharedObject::open(Path::new("libcuda.so.1"))?;
        // SAFETY: the functions of the driver have these names and types, and the library stays open until the process
        // ends.
        let functions = unsafe {
            let attribute = library.function::<GetAttribute>(c"cuPointerGetAttribute");
            let range = library.function::<GetRange>(c"cuMemGetAddressRange_v2");
            attribute.zip(range)
        };
        let (attribute, range) =
            functions.ok_or("libcuda.so.1 does not have the functions that tell of addresses")?;
        library.keep();
        Ok(Cuda { attribute, range })
    }

    /// Returns the unique number of the allocation that contains an address in device memory: no other allocation of
    /// this process ever has it. `None` for memory of the host, and for memory to which the driver gives no number.
    #[inline]
    pub fn device_memory(&self, address: usize) -> Option<u64> {
        match self.ask(MEMORY_TYPE, address)? {
            DEVICE => self.ask(BUFFER_ID, address),
            _ => None,
        }
    }

    /// Returns the allocation of an address in device memory.
    pub fn allocation(&self, address: usize) -> Option<Allocation> {
        let (mut base, mut len) = (0, 0);
        // SAFETY: the function accepts any address; both places are written during the call.
        let code = unsafe { (self.range)(&raw mut base, &raw mut len, address as u64) };
        if code != 0 {
            return None;
        }
        Some(Allocation {
            base: usize::try_from(base).ok()?,
            len,
            ordinal: self.ask(DEVICE_ORDINAL, address)? as i32,
            managed: self.ask(IS_MANAGED, address)? != 0,
        })
    }

    /// Returns an attribute of an address. Attributes have one to eight bytes in little-endian order.
    fn ask(&self, attribute: c_int, address: usize) -> Option<u64> {
        let mut value = [0_u8; 8];
        // SAFETY: the function accepts any address; no attribute that is read here is longer than `value`.
        let code =
            unsafe { (self.attribute)(value.as_mut_ptr().cast(), attribute, address as u64) };
        (code == 0).then(|| u64::from_le_bytes(value))
    }
}
