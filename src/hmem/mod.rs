// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory by its kind: how bytes come to it and from it. One file per kind; `host` is the only one that exists.
//! fi_mr(3), iface.

pub mod host;
