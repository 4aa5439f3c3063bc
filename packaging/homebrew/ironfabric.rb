# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# For Homebrew on Linux, in a tap: copy this file to Formula/ironfabric.rb there, and put the project's account in the
# place of OWNER.
class Ironfabric < Formula
  desc "Libfabric.so.1 written in Rust: drop-in replacement of libfabric 2.7"
  homepage "https://github.com/OWNER/ironfabric"
  url "https://github.com/OWNER/ironfabric.git", tag: "v0.9.0"
  license any_of: ["BSD-2-Clause", "GPL-2.0-only"]
  head "https://github.com/OWNER/ironfabric.git", branch: "main"

  keg_only "formulae that depend on libfabric expect that of Homebrew in its place"

  # The linker gets a second version script, which only lld accepts.
  depends_on "lld" => :build
  depends_on "pandoc" => :build
  depends_on "rust" => :build
  depends_on "util-linux" => :build # flock
  depends_on :linux

  def install
    system "make", "all", "plugin", "SYSCONFDIR=#{etc}"
    system "make", "install-built", "PREFIX=#{prefix}", "SYSCONFDIR=#{etc}"
  end

  def caveats
    <<~EOS
      A program takes this library with
        LD_LIBRARY_PATH=#{opt_lib} program
      and a program that Homebrew has built with
        LD_PRELOAD=#{opt_lib}/libfabric.so.1 program
    EOS
  end

  test do
    (testpath/"program.c").write <<~C
      #include <rdma/fabric.h>
      int main(void)
      {
        struct fi_info *info = NULL;
        int failed = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, NULL, &info);
        fi_freeinfo(info);
        return failed || fi_version() != FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
      }
    C
    system ENV.cc, "program.c", "-o", "program", "-I#{include}", "-L#{lib}", "-lfabric", "-Wl,-rpath,#{lib}"
    system "./program"
    assert_match "provider: tcp", shell_output("#{bin}/fi_info -p tcp")
  end
end
