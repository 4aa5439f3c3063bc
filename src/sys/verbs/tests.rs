// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Compares our declarations with rdma-core's headers, if they are installed.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::layout::LAYOUTS;

const HEADERS: [&str; 2] = [
    "/usr/include/infiniband/verbs.h",
    "/usr/include/rdma/rdma_cma.h",
];

/// A C program that prints the same table for the structs of the headers.
fn program() -> String {
    let mut c = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n\
         #include <rdma/rdma_cma.h>\nint main(void) {\n",
    );
    for (name, _, members) in LAYOUTS {
        writeln!(c, "printf(\"{name} %zu\\n\", sizeof(struct {name}));").unwrap();
        for (member, _) in *members {
            writeln!(
                c,
                "printf(\"{name}.{member} %zu\\n\", offsetof(struct {name}, {member}));"
            )
            .unwrap();
        }
    }
    c.push_str("return 0; }\n");
    c
}

fn ours() -> String {
    let mut text = String::new();
    for (name, size, members) in LAYOUTS {
        writeln!(text, "{name} {size}").unwrap();
        for (member, offset) in *members {
            writeln!(text, "{name}.{member} {offset}").unwrap();
        }
    }
    text
}

/// Newer headers have longer structs of attributes: the size that is passed to the library says which part is known
/// here.
fn without_grown(text: &str) -> Vec<&str> {
    let lines = text.lines();
    lines
        .filter(|line| !line.starts_with("ibv_port_attr "))
        .filter(|line| !line.starts_with("ibv_device_attr_ex "))
        .collect()
}

#[test]
fn layouts_are_those_of_the_installed_headers() {
    if let Some(missing) = HEADERS.iter().find(|header| !Path::new(header).exists()) {
        eprintln!("skipped: {missing} is not installed, so layouts were not compared");
        return;
    }
    let folder = std::env::temp_dir().join(format!("verbs-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program()).unwrap();
    let built = Command::new("cc")
        .arg("-o")
        .args([&binary, &source])
        .status();
    match built {
        Ok(status) => assert!(status.success(), "the program does not compile"),
        Err(error) => {
            eprintln!("skipped: no compiler, so layouts were not compared: {error}");
            return;
        }
    }
    let output = Command::new(&binary).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let theirs = String::from_utf8(output.stdout).unwrap();
    assert_eq!(without_grown(&ours()), without_grown(&theirs));
}
