// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// One program, compiled once for each of several generations of headers: with their structs, tables and symbol nodes.
// Objects are opened with their API version.

#define _GNU_SOURCE

#include "info.h"
#include "queues.h"
#include "regions.h"

// Runs in a separate process, whose guards are checked at the end.
#define GUARDED_TEST(function) \
	static void function##_guarded(void) \
	{ \
		guard_init(); \
		function(); \
		EQUAL(guards_broken(), 0); \
	}
#define ENTRY(function) {#function, function##_guarded},
#define TESTS_OF_EVERY_TIME(apply) \
	apply(version) \
	apply(getinfo_reads_no_more_than_the_hints_of_its_time) \
	apply(hints_are_read_to_their_end) \
	apply(mr_mode_is_an_enumeration_first_and_bits_from_1_5_on) \
	apply(dupinfo_copies_structs_of_its_time) \
	apply(fabric_and_domain_take_attributes_of_their_time) \
	apply(attributes_are_read_as_long_as_they_are) \
	apply(contexts_take_attributes_of_their_time) \
	apply(a_message_goes_through_structs_of_its_time) \
	apply(aliases_and_wait_objects) \
	apply(cq_errors_are_as_long_as_at_their_time) \
	apply(eq_errors_bring_data_as_at_their_time) \
	apply(a_connection_is_accepted_with_an_info_of_its_time) \
	apply(regattr_reads_no_more_than_an_attr_of_its_time) \
	apply(rma_in_the_modes_of_its_time)
#if SINCE(1, 5)
#define TESTS(apply) TESTS_OF_EVERY_TIME(apply) \
	apply(refresh_reads_no_more_than_a_modify_of_its_time) \
	apply(raw_keys_go_through_structs_of_their_time)
#else
#define TESTS(apply) TESTS_OF_EVERY_TIME(apply)
#endif

TESTS(GUARDED_TEST)

int main(int argc, char **argv)
{
	static const struct test tests[] = {TESTS(ENTRY)};

	return RUN_TESTS(tests, argc, argv);
}
