// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests variables as a process reads them. Each environment needs a process of its own: this program, started again.
#![forbid(unsafe_code)]

use super::testing::{print_report, report};
use super::*;

static TESTER: Source = Source::new(c"tester");

#[test]
#[ignore = "run by the other tests, in an environment of its own"]
fn child() {
    for (name, kind) in [
        ("string", Kind::String),
        ("int", Kind::Int),
        ("bool", Kind::Bool),
        ("size", Kind::Size),
    ] {
        define(Some(&TESTER), name, kind, "for a test").unwrap();
    }
    define(
        None,
        "tester_int",
        Kind::String,
        "the same variable, of the library",
    )
    .unwrap();
    define(Some(&TESTER), "int", Kind::String, "again").unwrap();
    print_report(&format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        get_str(Some(&TESTER), "string"),
        get_int(Some(&TESTER), "int"),
        get_bool(Some(&TESTER), "bool"),
        get_size(Some(&TESTER), "size"),
        get_str(None, "tester_int"),
        get_int(None, "int"),
    ));
}

fn read_child(environment: &[(&str, &str)]) -> String {
    report("params::tests::child", environment)
}

#[test]
fn a_variable_that_is_not_set_has_no_data() {
    let nodata = "Err(Error(61))";
    let expected = format!("{nodata} {nodata} {nodata} {nodata} {nodata} Err(Error(2))");
    assert_eq!(read_child(&[]), expected);
}

#[test]
fn a_variable_has_the_type_of_its_first_definition() {
    let environment = [
        ("FI_TESTER_STRING", ""),
        ("FI_TESTER_INT", "0x10"),
        ("FI_TESTER_BOOL", "On"),
        ("FI_TESTER_SIZE", "-1"),
        ("FI_INT", "5"),
        ("FI_tester_string", "lower case is another variable"),
    ];
    let size = usize::MAX;
    let expected = format!("Ok(\"\") Ok(16) Ok(true) Ok({size}) Ok(\"0x10\") Err(Error(2))");
    assert_eq!(read_child(&environment), expected);
}

#[test]
fn a_boolean_that_is_no_word_is_refused() {
    let text = read_child(&[("FI_TESTER_BOOL", "maybe")]);
    assert_eq!(text.split(' ').nth(2), Some("Err(Error(22))"));
}

#[test]
fn a_path_is_not_for_those_who_start_a_program_with_more_rights() {
    // Any variable that the process has.
    let (name, _) = std::env::vars().next().unwrap();
    for kind in [Kind::String, Kind::Path, Kind::Int] {
        assert!(text_of(&name, kind, false).is_some());
        assert_eq!(text_of(&name, kind, true).is_none(), kind == Kind::Path);
    }
}

#[test]
fn a_value_is_asked_for_in_its_type() {
    static OTHER: Source = Source::new(c"other-tester");
    define(Some(&OTHER), "path", Kind::String, "for a test").unwrap();
    let from_env = get_for(&Origin::from(&OTHER), Some("other-tester"), "path");
    assert_eq!(from_env, Err(Error::NODATA));
    assert_eq!(get_int(Some(&OTHER), "nothing"), Err(Error::NOENT));
}

#[test]
fn a_definition_needs_a_help_text() {
    static THIRD: Source = Source::new(c"third");
    assert_eq!(define(Some(&THIRD), "x", Kind::Int, ""), Err(Error::INVAL));
    assert_eq!(get_int(Some(&THIRD), "x"), Err(Error::NOENT));
}

#[test]
fn definitions_are_listed_in_order_with_their_names() {
    static LISTED: Source = Source::new(c"Listed;x");
    define(Some(&LISTED), "One two", Kind::Int, "first").unwrap();
    define(Some(&LISTED), "", Kind::Bool, "second").unwrap();
    define(None, "listed_core", Kind::Size, "third").unwrap();
    let listed: Vec<_> = definitions()
        .into_iter()
        .filter(|definition| definition.variable.starts_with("FI_LISTED"))
        .map(|definition| (definition.variable, definition.kind, definition.help))
        .collect();
    let expected = [
        ("FI_LISTED;X_ONE TWO", Kind::Int, "Listed;x: first"),
        ("FI_LISTED;X_", Kind::Bool, "Listed;x: second"),
        ("FI_LISTED_CORE", Kind::Size, "third"),
    ]
    .map(|(name, kind, help)| (name.to_owned(), kind, help.to_owned()));
    assert_eq!(listed, expected);
    assert_eq!(definitions()[0].variable, "FI_PREFER_SYSCONFIG");
}
