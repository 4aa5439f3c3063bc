// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/providers/fi_log.h>`: Logging as a provider calls it: fi_provider(3).
//!
//! Declarations only; build.rs writes them into the public header.

c_enum! {
    /// The part of the library that a line is about. fi_provider(3)
    pub enum fi_log_subsys {
        FI_LOG_CORE = 0,
        FI_LOG_FABRIC = 1,
        FI_LOG_DOMAIN = 2,
        FI_LOG_EP_CTRL = 3,
        FI_LOG_EP_DATA = 4,
        FI_LOG_AV = 5,
        FI_LOG_CQ = 6,
        FI_LOG_EQ = 7,
        FI_LOG_MR = 8,
        FI_LOG_CNTR = 9,
    }
}

c_enum! {
    /// Importance of a line. The setting FI_LOG_LEVEL enables its own level and the levels before it.
    /// fi_provider(3)
    pub enum fi_log_level {
        /// Failures.
        FI_LOG_WARN = 0,
        /// Calls.
        FI_LOG_TRACE = 1,
        /// Decisions and their reasons.
        FI_LOG_INFO = 2,
        /// Everything.
        FI_LOG_DEBUG = 3,
    }
}
