// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_HOOK: fabric(7), fi_hook(7). Hooks wrap every fabric that is opened, also those that a layered provider opens
//! below itself.

use super::kind::Kind;
use super::registered::Registered;
use base::Result;
use base::info::Info;
use base::log::{CORE, Subsys, log_trace, log_warn};
use base::settings::Settings;
use client::wrap::{Fabric, outermost};
use prov::Provider;

/// Wraps a fabric of `hooked` into the hooks that FI_HOOK names; the first is innermost. Unknown hooks, and hooks that
/// decline, are skipped.
pub fn put_around(fabric: Fabric, hooked: &dyn Provider) -> Fabric {
    let Some(wanted) = Settings::get().hook.as_deref() else {
        return fabric;
    };
    put(fabric, hooked, wanted, super::providers())
}

fn put(
    mut fabric: Fabric,
    hooked: &dyn Provider,
    wanted: &str,
    providers: Result<&[Registered]>,
) -> Fabric {
    for name in wanted.split(';') {
        let Some(hook) = providers
            .into_iter()
            .flatten()
            .find(|other| is_called(other, name))
        else {
            log_warn!(
                &CORE,
                Subsys::Core,
                "FI_HOOK: no hook is called {name:?}; names are separated by ;"
            );
            continue;
        };
        fabric = match hook.provider.hook(fabric, hooked) {
            Ok(around) => {
                log_trace!(
                    hooked.source(),
                    Subsys::Fabric,
                    "hook {} installed",
                    hook.name()
                );
                around
            }
            Err((fabric, error)) => {
                log_trace!(
                    hooked.source(),
                    Subsys::Fabric,
                    "hook {} leaves the fabric alone: {error}",
                    hook.name()
                );
                fabric
            }
        };
    }
    fabric
}

/// Replaces the open objects in entries by the outermost ones, which the application holds.
pub fn show_outermost(entries: &mut [Info]) {
    for info in entries {
        for object in [&mut info.fabric.fabric, &mut info.domain.domain] {
            *object = outermost(*object);
        }
    }
}

/// Whether this is the provider's full name, or its name without this library's prefix.
fn is_called(registered: &Registered, name: &str) -> bool {
    registered.kind == Kind::Hook
        && !registered.hidden
        && (registered.is_called(name) || registered.is_called(&format!("ofi_hook_{name}")))
}
