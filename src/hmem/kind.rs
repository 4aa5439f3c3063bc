// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Kinds of memory: `enum fi_hmem_iface` of fi_mr(3), and their names in FI_HMEM.

/// A kind of memory that the interface names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Memory that the processor loads from and stores to.
    Host = 0,
    Cuda = 1,
    Rocr = 2,
    Ze = 3,
    Neuron = 4,
    SynapseAi = 5,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::Host,
        Kind::Cuda,
        Kind::Rocr,
        Kind::Ze,
        Kind::Neuron,
        Kind::SynapseAi,
    ];

    /// Converts a number of `enum fi_hmem_iface`.
    pub fn of_iface(iface: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u32 == iface)
    }

    /// The name in FI_HMEM.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Host => "system",
            Kind::Cuda => "cuda",
            Kind::Rocr => "rocr",
            Kind::Ze => "ze",
            Kind::Neuron => "neuron",
            Kind::SynapseAi => "synapseai",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_interface() {
        let numbers = Kind::ALL.map(|kind| kind as u32);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        assert_eq!(Kind::of_iface(1), Some(Kind::Cuda));
        assert_eq!(Kind::of_iface(6), None);
    }
}
