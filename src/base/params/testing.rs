// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests of variables, each in a process of its own with its own environment.

use std::process::Command;

/// Runs an ignored test of this program in a new process with these variables, and returns what it prints with
/// `print_report`. Other FI_ variables of this process are not passed on.
pub fn report(test: &str, environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        test,
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"FI_") {
            command.env_remove(name);
        }
    }
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{test}: {text}");
    let begin = text.find(BEGIN).expect(test) + BEGIN.len();
    text[begin..text.find(END).unwrap()].trim().to_owned()
}

/// Prints a text between the marks that `report` searches for.
pub fn print_report(text: &str) {
    println!("{BEGIN}{text}{END}");
}

const BEGIN: &str = "<<<report";
const END: &str = "report>>>";
