// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The library's own variables, apart from those of the log: fabric(7), fi_getinfo(3), fi_mr(3).
//!
//! They are defined and read at the first call; later changes of the environment have no effect.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::OnceLock;

use super::log::{CORE, Subsys, log_warn};
use super::params::{self, Kind};

/// The settings of the whole library in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// FI_PROVIDER: which providers may be used.
    pub provider: Option<String>,
    /// FI_PROVIDER_PATH: the folders of loadable providers.
    pub provider_path: Option<String>,
    /// FI_PROVIDER_OPEN: files of providers that FI_PROVIDER excludes are opened, too.
    pub provider_open_all: bool,
    /// FI_PROVIDER_TIMEOUT: how long a loadable provider may take to start.
    pub provider_timeout: Duration,
    /// FI_HOOK: the hooks that wrap fabrics.
    pub hook: Option<String>,
    /// FI_PERF_CNTR: the event that the hook `perf` counts.
    pub perf_cntr: Option<String>,
    /// FI_HMEM: kinds of device memory that the library may detect.
    pub hmem: Option<String>,
    /// FI_HMEM_DISABLE_P2P: adapters do not access memory of devices.
    pub hmem_disable_p2p: bool,
    /// FI_HMEM_CUDA_USE_DMABUF: adapters access memory of CUDA devices by dma-bufs.
    pub hmem_cuda_use_dmabuf: bool,
    /// FI_HMEM_ZE_COPY_ENGINE: the engine of Level Zero devices that copies.
    pub hmem_ze_copy_engine: Option<String>,
    /// FI_MR_CACHE_MAX_SIZE and _COUNT: what a cache of registrations may keep.
    pub mr_cache_max_size: Option<usize>,
    pub mr_cache_max_count: Option<usize>,
    /// FI_MR_CACHE_MONITOR: how changes of memory are noticed.
    pub mr_cache_monitor: Option<String>,
    /// FI_ADDR_FORMAT: the format of the addresses that fi_getinfo shows.
    pub addr_format: Option<u32>,
    /// FI_UNIVERSE_SIZE: the number of peers to expect.
    pub universe_size: Option<usize>,
    /// FI_AV_REMOVE_CLEANUP: removing an address also closes the hidden connection to it.
    pub av_remove_cleanup: bool,
    /// FI_RAISE_NOFILE: the first connection raises the soft limit on descriptors.
    pub raise_nofile: bool,
    /// FI_STATS: other processes of this user may read the counters of endpoints.
    pub stats: bool,
    /// FI_DUMP_ON_SIGNAL: the signal that requests a dump.
    pub dump_on_signal: Option<String>,
    /// FI_DUMP_FILE: the place of dump files.
    pub dump_file: Option<String>,
}

impl Settings {
    /// Whether adapters may access memory of this kind by dma-bufs.
    pub fn exports_buffers(&self, kind: &str) -> bool {
        kind != "cuda" || self.hmem_cuda_use_dmabuf
    }

    /// Returns the settings of this process. Providers define their variables after the first call, so these come
    /// first.
    pub fn get() -> &'static Settings {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        SETTINGS.get_or_init(|| {
            define();
            read()
        })
    }

    /// Returns true if the library may detect memory of this kind.
    pub fn wants_hmem(&self, kind: &str) -> bool {
        let names = |list: &str| {
            let mut named = list.split([';', ',']).map(str::trim);
            named.any(|name| name.eq_ignore_ascii_case(kind))
        };
        self.hmem.as_deref().is_none_or(names)
    }
}

fn define() {
    for (name, kind, help) in VARIABLES {
        if let Err(error) = params::define(None, name, kind, help) {
            log_warn!(&CORE, Subsys::Core, "variable {name}: {error}");
        }
    }
}

fn read() -> Settings {
    Settings {
        provider: params::get_str(None, "provider").ok(),
        provider_path: params::get_str(None, "provider_path").ok(),
        provider_open_all: params::get_str(None, "provider_open")
            .is_ok_and(|text| text.eq_ignore_ascii_case("all")),
        provider_timeout: match params::get_int(None, "provider_timeout") {
            Ok(ms @ 1..) => Duration::from_millis(ms as u64),
            Ok(_) => params::NO_LIMIT,
            Err(_) => PROVIDER_TIMEOUT,
        },
        hook: params::get_str(None, "hook").ok(),
        perf_cntr: params::get_str(None, "perf_cntr").ok(),
        hmem: params::get_str(None, "hmem").ok(),
        hmem_disable_p2p: params::get_bool(None, "hmem_disable_p2p").unwrap_or(false),
        hmem_cuda_use_dmabuf: params::get_bool(None, "hmem_cuda_use_dmabuf").unwrap_or(true),
        hmem_ze_copy_engine: params::get_str(None, "hmem_ze_copy_engine").ok(),
        mr_cache_max_size: params::get_size(None, "mr_cache_max_size").ok(),
        mr_cache_max_count: params::get_size(None, "mr_cache_max_count").ok(),
        mr_cache_monitor: params::get_str(None, "mr_cache_monitor").ok(),
        addr_format: params::get_str(None, "addr_format")
            .ok()
            .and_then(|name| addr_format(&name)),
        universe_size: params::get_size(None, "universe_size").ok(),
        av_remove_cleanup: params::get_bool(None, "av_remove_cleanup").unwrap_or(false),
        raise_nofile: params::get_bool(None, "raise_nofile").unwrap_or(true),
        stats: params::get_bool(None, "stats").unwrap_or(true),
        dump_on_signal: params::get_str(None, "dump_on_signal").ok(),
        dump_file: params::get_str(None, "dump_file").ok(),
    }
}

const PROVIDER_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the format with this name. An unknown name is ignored, with a warning.
fn addr_format(name: &str) -> Option<u32> {
    let known = ADDR_FORMATS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    if known.is_none() && !name.is_empty() {
        log_warn!(
            &CORE,
            Subsys::Core,
            "FI_ADDR_FORMAT={name} names no address format and has no effect; there are: {}",
            ADDR_FORMATS.map(|(known, _)| known).join(", ")
        );
    }
    known.map(|&(_, format)| format)
}

macro_rules! formats {
    ($($name:ident)*) => { [$((stringify!($name), abi::$name),)*] };
}

/// The formats that FI_ADDR_FORMAT may name: fi_getinfo(3).
const ADDR_FORMATS: [(&str, u32); 10] = formats!(
    FI_SOCKADDR FI_SOCKADDR_IN FI_SOCKADDR_IN6 FI_SOCKADDR_IB FI_ADDR_IB_UD FI_ADDR_EFA FI_ADDR_PSMX3 FI_ADDR_OPX
    FI_ADDR_CXI FI_ADDR_STR
);

/// The variables, in the order in which `fi_getparams` lists them.
const VARIABLES: [(&str, Kind, &str); 25] = [
    (
        "perf_cntr",
        Kind::String,
        "what the hook perf counts: cpu_instr or cpu_cycles (default: cpu_instr)",
    ),
    (
        "hook",
        Kind::String,
        "hooks to put around fabrics, separated by ; and the innermost first (default: none)",
    ),
    (
        "hmem",
        Kind::String,
        "kinds of device memory that are looked for, separated by ; or , (default: all, which is cuda, rocr and ze)",
    ),
    (
        "hmem_ze_copy_engine",
        Kind::String,
        "engine that copies to and from Level Zero devices, as group or group.index (default: the first group that only copies)",
    ),
    (
        "hmem_disable_p2p",
        Kind::Bool,
        "adapters do not access memory of devices: verbs has no FI_HMEM (default: no)",
    ),
    (
        "hmem_cuda_use_dmabuf",
        Kind::Bool,
        "verbs registers memory of CUDA devices by dma-bufs (default: yes)",
    ),
    (
        "mr_cache_max_size",
        Kind::Size,
        "bytes of unused registrations that a domain keeps for the same memory (default: memory / processors / 2)",
    ),
    (
        "mr_cache_max_count",
        Kind::Size,
        "unused registrations that a domain keeps for the same memory, 0 for none (default: 1024)",
    ),
    (
        "mr_cache_monitor",
        Kind::String,
        "how changes of registered memory are noticed: userfaultfd, or disabled to keep no registrations (default: \
         userfaultfd)",
    ),
    (
        "mr_cuda_cache_monitor_enabled",
        Kind::Bool,
        "accepted and ignored: watch CUDA memory for the registration cache (default: yes)",
    ),
    (
        "mr_rocr_cache_monitor_enabled",
        Kind::Bool,
        "accepted and ignored: watch ROCR memory for the registration cache (default: yes)",
    ),
    (
        "mr_ze_cache_monitor_enabled",
        Kind::Bool,
        "accepted and ignored: watch Level Zero memory for the registration cache (default: yes)",
    ),
    (
        "provider",
        Kind::String,
        "providers that may be used, separated by commas; a leading ^ means all but these (default: all)",
    ),
    (
        "fork_unsafe",
        Kind::Bool,
        "accepted and ignored: fork() need not be safe (default: no)",
    ),
    (
        "universe_size",
        Kind::Size,
        "number of peers to expect; sizes address vectors when the application does not (default: 256)",
    ),
    (
        "av_remove_cleanup",
        Kind::Bool,
        "removing an address also closes the hidden connection to that peer (default: no)",
    ),
    (
        "offload_coll_provider",
        Kind::String,
        "accepted and ignored: provider to offload collectives to (default: none)",
    ),
    (
        "provider_path",
        Kind::Path,
        "folders with loadable providers, separated by colons; +FILE for one of them, a leading @ for the first found \
         instead of the newest (default: libfabric beside this library)",
    ),
    (
        "provider_open",
        Kind::String,
        "all: open loadable providers that FI_PROVIDER leaves out, too (default: those that it does not)",
    ),
    (
        "provider_timeout",
        Kind::Int,
        "milliseconds that a loadable provider may take to start, 0 for no limit (default: 30000)",
    ),
    (
        "addr_format",
        Kind::String,
        "show addresses of this format only: FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_ADDR_STR, ... (default: all)",
    ),
    (
        "raise_nofile",
        Kind::Bool,
        "the first connection raises the soft limit on descriptors to the hard limit, to 1048576 at most (default: yes)",
    ),
    (
        "stats",
        Kind::Bool,
        "count what endpoints do where fi_top of the same user can read it (default: yes)",
    ),
    (
        "dump_on_signal",
        Kind::String,
        "signal, by name or number, at which the process writes what its endpoints wait for, as USR2 (default: none)",
    ),
    (
        "dump_file",
        Kind::Path,
        "where that goes: the process, a number and .txt or .json are appended; log for the log alone (default: \
         ironfabric-dump in the folder for temporary files)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::testing::{print_report, report};

    #[test]
    #[ignore = "run by the other tests, in an environment of its own"]
    fn child() {
        print_report(&format!("{:?}", Settings::get()));
    }

    fn unset() -> Settings {
        Settings {
            provider_timeout: PROVIDER_TIMEOUT,
            raise_nofile: true,
            stats: true,
            hmem_cuda_use_dmabuf: true,
            ..Settings::default()
        }
    }

    fn check(environment: &[(&str, &str)], expected: Settings) {
        let found = report("settings::tests::child", environment);
        assert_eq!(found, format!("{expected:?}"), "{environment:?}");
    }

    #[test]
    fn without_variables_nothing_is_asked_for() {
        check(&[], unset());
    }

    #[test]
    fn every_variable_has_its_field() {
        let environment = [
            ("FI_PROVIDER", "^shm,udp"),
            ("FI_PROVIDER_PATH", "/a:+/b"),
            ("FI_PROVIDER_OPEN", "ALL"),
            ("FI_PROVIDER_TIMEOUT", "250"),
            ("FI_HOOK", "noop;trace"),
            ("FI_PERF_CNTR", "cpu_cycles"),
            ("FI_HMEM", "rocr;ze"),
            ("FI_HMEM_DISABLE_P2P", "1"),
            ("FI_HMEM_CUDA_USE_DMABUF", "0"),
            ("FI_HMEM_ZE_COPY_ENGINE", "1.2"),
            ("FI_MR_CACHE_MAX_SIZE", "0x10000"),
            ("FI_MR_CACHE_MAX_COUNT", "7"),
            ("FI_MR_CACHE_MONITOR", "disabled"),
            ("FI_ADDR_FORMAT", "fi_sockaddr_in6"),
            ("FI_UNIVERSE_SIZE", "0x100"),
            ("FI_AV_REMOVE_CLEANUP", "TRUE"),
            ("FI_RAISE_NOFILE", "no"),
            ("FI_STATS", "0"),
            ("FI_DUMP_ON_SIGNAL", "USR2"),
            ("FI_DUMP_FILE", "/a/dump"),
        ];
        let expected = Settings {
            provider: Some("^shm,udp".to_owned()),
            provider_path: Some("/a:+/b".to_owned()),
            provider_open_all: true,
            provider_timeout: Duration::from_millis(250),
            hook: Some("noop;trace".to_owned()),
            perf_cntr: Some("cpu_cycles".to_owned()),
            hmem: Some("rocr;ze".to_owned()),
            hmem_disable_p2p: true,
            hmem_cuda_use_dmabuf: false,
            hmem_ze_copy_engine: Some("1.2".to_owned()),
            mr_cache_max_size: Some(65536),
            mr_cache_max_count: Some(7),
            mr_cache_monitor: Some("disabled".to_owned()),
            addr_format: Some(abi::FI_SOCKADDR_IN6),
            universe_size: Some(256),
            av_remove_cleanup: true,
            raise_nofile: false,
            stats: false,
            dump_on_signal: Some("USR2".to_owned()),
            dump_file: Some("/a/dump".to_owned()),
        };
        check(&environment, expected);
    }

    #[test]
    fn kinds_of_device_memory_are_all_or_those_named() {
        let wants = |list: Option<&str>| {
            let hmem = list.map(str::to_owned);
            Settings { hmem, ..unset() }.wants_hmem("cuda")
        };
        assert!(
            wants(None)
                && wants(Some("cuda"))
                && wants(Some("rocr; CUDA"))
                && wants(Some("ze,cuda"))
        );
        assert!(!wants(Some("")) && !wants(Some("system")) && !wants(Some("cuda2;rocr")));
    }

    #[test]
    fn unknown_address_formats_are_none() {
        for name in ["", "FI_ADDR_PSMX", "2", "FI_SOCKADDR_IN "] {
            check(&[("FI_ADDR_FORMAT", name)], unset());
        }
    }

    #[test]
    fn an_empty_provider_list_is_a_list() {
        let expected = Settings {
            provider: Some(String::new()),
            ..unset()
        };
        check(
            &[("FI_PROVIDER", ""), ("FI_AV_REMOVE_CLEANUP", "ja")],
            expected,
        );
    }
}
