// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The table of an address vector.

use std::net::{Ipv4Addr, SocketAddr};

use super::*;

fn table(addrs: &[&'static str]) -> AvTable<&'static str> {
    let mut table = AvTable::new();
    for (n, &addr) in addrs.iter().enumerate() {
        assert_eq!(table.insert(addr), (n as u64, true));
    }
    table
}

#[test]
fn indexes_count_from_zero_in_order_of_insertion() {
    let table = table(&["a", "b", "c"]);
    assert_eq!(table.get(1), Some(&"b"));
    assert_eq!(table.find(&"c"), Some(2));
    assert_eq!(table.find(&"d"), None);
    assert_eq!(
        Vec::from_iter(table.iter()),
        [(0, &"a"), (1, &"b"), (2, &"c")]
    );
    for outside in [3, 1 << 32, u64::MAX] {
        assert_eq!(table.get(outside), None);
    }
}

#[test]
fn an_address_inserted_twice_keeps_its_index_and_is_removed_twice() {
    let mut table = table(&["a", "b"]);
    assert_eq!(table.insert("a"), (0, false));
    assert_eq!(table.len(), 2);
    assert_eq!(table.remove(0).unwrap(), None);
    assert_eq!(table.get(0), Some(&"a"));
    assert_eq!(table.remove(0).unwrap(), Some("a"));
    assert_eq!(table.get(0), None);
    assert_eq!(table.len(), 1);
}

#[test]
fn removing_what_is_not_there_is_fi_einval() {
    let mut table = table(&["a"]);
    table.remove(0).unwrap();
    for index in [0, 1, u64::MAX] {
        assert_eq!(table.remove(index).err(), Some(Error::INVAL));
        assert_eq!(table.set_user_id(index, 1).err(), Some(Error::INVAL));
    }
    table.retire(0);
    assert_eq!(table.remove(0).err(), Some(Error::INVAL));
}

#[test]
fn a_removed_address_can_be_inserted_again() {
    let mut table = table(&["a"]);
    table.remove(0).unwrap();
    assert_eq!(table.insert("a"), (1, true));
    assert_eq!(table.find(&"a"), Some(1));
}

#[test]
fn the_lowest_unused_index_comes_next() {
    let mut table = table(&["a", "b", "c", "d", "e"]);
    for index in [3, 1, 2] {
        table.remove(index).unwrap();
        table.retire(index);
    }
    assert_eq!(table.insert("f"), (1, true));
    assert_eq!(table.insert("g"), (2, true));
    assert_eq!(table.insert("h"), (3, true));
    assert_eq!(table.insert("i"), (5, true));
}

#[test]
fn a_hole_is_not_reused_while_operations_name_it() {
    let mut table = table(&["a", "b", "c"]);
    table.remove(0).unwrap();
    table.remove(1).unwrap();
    table.retire(1);
    table.retire(1);
    table.retire(2);
    table.retire(9);
    assert_eq!(table.insert("d"), (1, true));
    assert_eq!(table.insert("e"), (3, true));
    table.retire(0);
    assert_eq!(table.insert("f"), (0, true));
    assert_eq!(table.get(2), Some(&"c"));
}

#[test]
fn a_user_id_defaults_to_the_index() {
    let mut table = table(&["a", "b"]);
    table.set_user_id(1, 77).unwrap();
    assert_eq!(
        [table.user_id(0), table.user_id(1), table.user_id(2)],
        [0, 77, UNNAMED]
    );
    table.remove(1).unwrap();
    assert_eq!(table.user_id(1), UNNAMED);
    table.retire(1);
    table.insert("c");
    assert_eq!(table.user_id(1), 1);
}

/// This also holds if names are set out of order and before the addresses are inserted.
#[test]
fn names_of_some_leave_those_of_others_alone() {
    let mut table = table(&["a", "b", "c"]);
    table.set_user_id(2, 90).unwrap();
    table.set_user_id(0, 70).unwrap();
    table.insert("d");
    assert_eq!([0, 1, 2, 3].map(|n| table.user_id(n)), [70, 1, 90, 3]);
    let mut table = AvTable::with_user_ids();
    for addr in ["a", "b", "c"] {
        table.insert(addr);
    }
    table.set_user_id(1, 80).unwrap();
    assert_eq!([0, 1, 2].map(|n| table.user_id(n)), [UNNAMED, 80, UNNAMED]);
}

#[test]
fn with_fi_av_user_id_an_address_has_no_name_until_one_is_set() {
    let mut table = AvTable::with_user_ids();
    table.insert("a");
    assert_eq!(table.user_id(0), UNNAMED);
    table.set_user_id(0, 5).unwrap();
    assert_eq!(table.user_id(0), 5);
}

/// Random calls against a plain list of addresses.
#[test]
fn random_calls_agree_with_a_plain_list() {
    let mut state = 1u64;
    let mut random = move |limit: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % limit
    };
    let mut table = AvTable::new();
    // Address and count; None is a hole that was not retired, count 0 one that was.
    let mut model: Vec<Option<(u64, u32)>> = Vec::new();
    for _ in 0..50_000 {
        let (addr, index) = (random(60), random(70));
        let slot = model.get_mut(index as usize);
        match random(4) {
            0 | 1 => {
                let known = model
                    .iter_mut()
                    .position(|slot| matches!(slot, Some((a, count)) if *a == addr && *count > 0));
                let unused = || model.iter().position(|slot| matches!(slot, Some((_, 0))));
                let at = known.or_else(unused).unwrap_or(model.len());
                assert_eq!(table.insert(addr), (at as u64, known.is_none()));
                model.resize(model.len().max(at + 1), None);
                let count = known.and_then(|at| model[at]).map_or(0, |slot| slot.1);
                model[at] = Some((addr, count + 1));
            }
            2 => {
                let expected = match slot {
                    Some(slot @ Some((_, 1))) => Ok(slot.take().map(|slot| slot.0)),
                    Some(Some((_, count))) if *count > 1 => {
                        *count -= 1;
                        Ok(None)
                    }
                    _ => Err(Error::INVAL),
                };
                assert_eq!(table.remove(index), expected);
            }
            _ => {
                table.retire(index);
                if let Some(slot @ None) = slot {
                    *slot = Some((0, 0));
                }
            }
        }
        let used = model.iter().flatten().filter(|slot| slot.1 > 0);
        assert_eq!(table.len(), used.count());
        let expected = model.get(index as usize).copied().flatten();
        let expected = expected.filter(|slot| slot.1 > 0).map(|slot| slot.0);
        assert_eq!(table.get(index).copied(), expected);
        if let Some(addr) = expected {
            assert_eq!(table.find(&addr), Some(index));
        }
    }
}

#[test]
fn an_address_costs_no_more_than_64_bytes() {
    let mut table = AvTable::new();
    for n in 0..150_000u32 {
        table.insert(SocketAddr::from((Ipv4Addr::from(n), 1)));
        let room: usize = table.slots.0.iter().map(Vec::capacity).sum();
        let all = room * size_of::<Slot<SocketAddr>>() + table.indexes.allocation_size();
        let spare = BLOCK * size_of::<Slot<SocketAddr>>();
        assert!(all <= 64 * table.len() + spare, "{all} at {n}");
    }
    assert!(table.repeats.is_empty() && table.user_ids.is_empty());
}

#[test]
fn a_hundred_thousand_addresses_are_found_both_ways() {
    let mut table = AvTable::new();
    let addr = |n: u32| SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + n / 16), (n % 16) as u16));
    for n in 0..100_000 {
        assert_eq!(table.insert(addr(n)), (n.into(), true));
    }
    for n in 0..100_000 {
        assert_eq!(table.find(&addr(n)), Some(n.into()));
        assert_eq!(table.get(n.into()), Some(&addr(n)));
    }
}
