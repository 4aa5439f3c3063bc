// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which providers answer a query: all of them an application's, and a layered provider's those below it.
#![forbid(unsafe_code)]

use super::filter::Filter;
use crate::base::info::{Answer, Query};
use crate::prov::{Below, Provider};

/// The providers as an application sees them, or one of them that builds upon others. It is not among them then, nor
/// are those that asked it: layers end.
pub struct View<'a> {
    providers: &'a [Box<dyn Provider>],
    /// FI_PROVIDER names the results of fi_getinfo. A provider below is only part of such a name.
    variable: Option<&'a str>,
    asking: Option<(&'a dyn Provider, &'a View<'a>)>,
}

impl<'a> View<'a> {
    pub fn of_application(
        providers: &'a [Box<dyn Provider>],
        variable: Option<&'a str>,
    ) -> View<'a> {
        View {
            providers,
            variable,
            asking: None,
        }
    }

    /// What a provider sees that builds upon the others.
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
        let mut all = Answer::default();
        for provider in self.providers {
            let provider = &**provider;
            if self.is_asking(provider) {
                continue;
            }
            let answer = filter.ask(provider, query, &self.below(provider));
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
    use crate::abi;
    use crate::base::info::{FabricAttr, Hints, Info};
    use crate::base::log::Source;
    use crate::base::{Error, Result};

    /// Offers one entry, or one for each below it.
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

    fn providers() -> Vec<Box<dyn Provider>> {
        static CORE: Source = Source::new(c"core");
        static SECOND: Source = Source::new(c"second");
        static LAYER: Source = Source::new(c"layer");
        static UPPER: Source = Source::new(c"upper");
        let fake = |source, layered| -> Box<dyn Provider> { Box::new(Fake { source, layered }) };
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
        let layer = &*providers[0];
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
