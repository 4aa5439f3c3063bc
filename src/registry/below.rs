// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The providers that answer a query: all of them for an application, those below it for a layered provider.

use super::filter::{CORE_ONLY, Filter, HIDDEN, OFFLOAD, PRIVATE};
use super::kind::Kind;
use super::registered::Registered;
use base::info::{Answer, Query};
use prov::{Below, Provider};

/// The providers as seen by an application, or by a layered provider. The latter does not see itself or the providers
/// that queried it, so that layering ends.
pub struct View<'a> {
    providers: &'a [Registered],
    /// Value of FI_PROVIDER, which names the results of fi_getinfo. The name of a provider below is only a part of such
    /// a name.
    variable: Option<&'a str>,
    asking: Option<(&'a dyn Provider, &'a View<'a>)>,
}

impl<'a> View<'a> {
    pub fn of_application(providers: &'a [Registered], variable: Option<&'a str>) -> View<'a> {
        View {
            providers,
            variable,
            asking: None,
        }
    }

    /// Returns the view of a provider that builds upon the others.
    pub fn below(&'a self, provider: &'a dyn Provider) -> View<'a> {
        View {
            providers: self.providers,
            variable: None,
            asking: Some((provider, self)),
        }
    }

    fn is_asking(&self, provider: &dyn Provider) -> bool {
        let name = provider.source().name();
        self.asking.is_some_and(|(asking, above)| {
            asking.source().name() == name || above.is_asking(provider)
        })
    }
}

impl Below for View<'_> {
    fn offers(&self, query: &Query) -> Answer {
        let filter = Filter::of(query, self.variable);
        let is_uppermost = |name: &str| {
            let mut named = self.providers.iter().filter(|other| other.is_called(name));
            named.any(Registered::is_uppermost)
        };
        let loads = |name: &str| {
            let mut named = self.providers.iter().filter(|other| other.is_called(name));
            named.any(|other| !other.is_own() && !other.hidden)
        };
        let mut all = Answer::default();
        for registered in self.providers {
            let provider = &*registered.provider;
            let left_out = registered.hidden && query.flags & HIDDEN == 0
                || registered.kind == Kind::Hook
                || registered.kind == Kind::Offload && query.flags & OFFLOAD == 0
                || query.flags & CORE_ONLY != 0 && !filter.may_lie_below(registered);
            if left_out || self.is_asking(provider) {
                continue;
            }
            // This library's providers do not support the bits that libraries use among themselves.
            let query = match registered.is_own() {
                true => &Query {
                    flags: query.flags & !PRIVATE,
                    ..*query
                },
                false => query,
            };
            let below = self.below(provider);
            let answer = filter.ask(registered, query, &below, is_uppermost, loads);
            all.entries.extend(answer.entries);
            all.reasons.extend(answer.reasons);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_void;
    use std::ffi::CStr;

    use super::*;
    use base::info::{FabricAttr, Hints, Info};
    use base::log::Source;
    use base::{Error, Result};

    /// A provider with one entry, or with one for each entry below it.
    struct Fake {
        source: &'static Source,
        layered: bool,
    }

    impl Provider for Fake {
        fn source(&self) -> &'static Source {
            self.source
        }

        fn version(&self) -> u32 {
            0
        }

        fn define_params(&self) {}

        fn offers(&self, query: &Query, below: &dyn Below) -> Answer {
            let own = self.source.name().to_str().unwrap();
            let named = |name: String| {
                let mut info = Info::default();
                info.fabric.prov_name = Some(std::ffi::CString::new(name).unwrap());
                info
            };
            let entries = match self.layered {
                false => vec![named(own.to_owned())],
                true => {
                    let below = below.offers(query).entries;
                    let over = |info: Info| named(format!("{};{own}", name_of(&info)));
                    below.into_iter().map(over).collect()
                }
            };
            Answer {
                entries,
                reasons: Vec::new(),
            }
        }

        fn open_fabric(
            &self,
            _attr: &FabricAttr,
            _api_version: u32,
            _flags: u64,
            _context: *mut c_void,
            _below: &dyn Below,
        ) -> Result<*mut abi::fid_fabric> {
            Err(Error::NOSYS)
        }
    }

    fn name_of(info: &Info) -> String {
        let name = info.fabric.prov_name.as_deref().unwrap();
        name.to_str().unwrap().to_owned()
    }

    fn providers() -> Vec<Registered> {
        static CORE: Source = Source::new(c"core");
        static SECOND: Source = Source::new(c"second");
        static LAYER: Source = Source::new(c"layer");
        static UPPER: Source = Source::new(c"upper");
        let fake = |source, layered| Registered::own(Box::new(Fake { source, layered }));
        vec![
            fake(&LAYER, true),
            fake(&CORE, false),
            fake(&UPPER, true),
            fake(&SECOND, false),
        ]
    }

    fn offered_to_layer(prov_name: Option<&CStr>) -> Vec<String> {
        let providers = providers();
        let hints = Hints {
            fabric: Some(FabricAttr {
                prov_name: prov_name.map(Into::into),
                ..FabricAttr::default()
            }),
            ..Hints::default()
        };
        let query = Query {
            version: 2 << 16,
            node: None,
            service: None,
            flags: 0,
            hints: Some(&hints),
        };
        let layer = &*providers[0].provider;
        let application = View::of_application(&providers, Some("layer"));
        let answer = layer.offers(&query, &application.below(layer));
        answer.entries.iter().map(name_of).collect()
    }

    #[test]
    fn a_layer_builds_upon_all_others_once() {
        let expected = [
            "core;layer",
            "core;upper;layer",
            "second;upper;layer",
            "second;layer",
        ];
        assert_eq!(offered_to_layer(None), expected);
    }

    #[test]
    fn hints_name_what_is_below() {
        assert_eq!(offered_to_layer(Some(c"second")), ["second;layer"]);
        assert_eq!(offered_to_layer(Some(c"layer")), [""; 0]);
    }
}
