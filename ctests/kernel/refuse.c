// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * refuse [-p] old|CALL... -- PROGRAM [ARGUMENT...]: runs a program and its children on a kernel without certain system
 * calls: they return ENOSYS, or with -p EPERM, as the filter of a container does. seccomp(2) enforces this, so neither
 * the program nor its C library can avoid it.
 *
 * "old": Linux 4.18. Refuses all system calls that were added later, which are those from number 424 on, and later
 * flags of other calls.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __aarch64__
#define MACHINE AUDIT_ARCH_AARCH64
#else
#define MACHINE AUDIT_ARCH_X86_64
#endif

static const struct {
	const char *name;
	int number;
} calls[] = {
#define CALL(name) { #name, __NR_##name }
	CALL(clone3), CALL(eventfd2), CALL(getrandom), CALL(membarrier), CALL(memfd_create), CALL(perf_event_open),
	CALL(process_vm_readv), CALL(process_vm_writev), CALL(recvmmsg), CALL(sendmmsg), CALL(statx), CALL(timerfd_create),
};

static struct sock_filter program[256];
static unsigned short length;

static void add(struct sock_filter instruction)
{
	if (length == sizeof(program) / sizeof(program[0])) {
		fprintf(stderr, "refuse: too long\n");
		exit(2);
	}
	program[length++] = instruction;
}

#define STATEMENT(code, k) add((struct sock_filter)BPF_STMT(code, k))
#define JUMP(code, k, yes, no) add((struct sock_filter)BPF_JUMP(code, k, yes, no))
#define LOAD(what) STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
/* The lower half of a 64-bit argument, which comes first on both machines. */
#define ARGUMENT(n) STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define RETURN(error) STATEMENT(BPF_RET | BPF_K, (error) ? SECCOMP_RET_ERRNO | (error) : SECCOMP_RET_ALLOW)

/* These leave the number of the system call in the accumulator. */
static void refuse_call(int number, int error)
{
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
	RETURN(error);
}

/* Tests for an argument from `first` to `last`. */
static void refuse_range(int number, int argument, unsigned first, unsigned last, int error)
{
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 5);
	ARGUMENT(argument);
	JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2);
	JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0);
	RETURN(error);
	LOAD(nr);
}

/* Tests for an argument equal to `first` whose next argument has any bit of `bits`. */
static void refuse_bits(int number, int argument, unsigned first, unsigned bits, int error)
{
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 6);
	ARGUMENT(argument);
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 0, 3);
	ARGUMENT(argument + 1);
	JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	RETURN(error);
	LOAD(nr);
}

static void refuse_flags(int number, int argument, unsigned bits, int error)
{
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4);
	ARGUMENT(argument);
	JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	RETURN(error);
	LOAD(nr);
}

static void be_old(int error)
{
	/* rseq(2) and older calls have smaller numbers; pidfd_send_signal(2) of 5.1 is the next one. */
	JUMP(BPF_JMP | BPF_JGE | BPF_K, 424, 0, 1);
	RETURN(error);
	/* MADV_COLD of 5.4, MADV_POPULATE_WRITE of 5.14, and later ones; except MADV_HWPOISON and MADV_SOFT_OFFLINE. */
	refuse_range(__NR_madvise, 2, 20, 99, EINVAL);
	/* F_SEAL_FUTURE_WRITE, 5.1; F_SEAL_EXEC, 6.3. */
	refuse_bits(__NR_fcntl, 1, 1033, 0x30, EINVAL);
	/* MFD_NOEXEC_SEAL and MFD_EXEC, 6.3. */
	refuse_flags(__NR_memfd_create, 1, 0x18, EINVAL);
	/* UDP_GRO of IPPROTO_UDP, 5.0. All options of SOL_SOCKET from SO_BINDTOIFINDEX of 5.0 on. */
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_setsockopt, 0, 9);
	ARGUMENT(1);
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 2);
	ARGUMENT(2);
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, 104, 3, 4);
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 3);
	ARGUMENT(2);
	JUMP(BPF_JMP | BPF_JGE | BPF_K, 62, 0, 1);
	RETURN(ENOPROTOOPT);
	LOAD(nr);
}

int main(int argc, char **argv)
{
	int error = ENOSYS, i = 1;

	if (i < argc && !strcmp(argv[i], "-p")) {
		error = EPERM;
		i++;
	}
	LOAD(arch);
	JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
	RETURN(0);
	LOAD(nr);
	for (; i < argc && strcmp(argv[i], "--"); i++) {
		size_t n = 0;

		if (!strcmp(argv[i], "old")) {
			be_old(error);
			continue;
		}
		while (n < sizeof(calls) / sizeof(calls[0]) && strcmp(calls[n].name, argv[i]))
			n++;
		if (n == sizeof(calls) / sizeof(calls[0])) {
			fprintf(stderr, "refuse: %s is not among the calls that this knows\n", argv[i]);
			return 2;
		}
		refuse_call(calls[n].number, error);
	}
	RETURN(0);
	if (i + 1 >= argc) {
		fprintf(stderr, "usage: refuse [-p] old|CALL... -- PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	struct sock_fprog filter = { .len = length, .filter = program };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		perror("refuse: seccomp");
		return 77;
	}
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 127;
}
