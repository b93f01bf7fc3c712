// SPDX-License-Identifier: Apache-2.0
// Signatures: "argument, argument -> result", with "." in front for members (the first argument is
// the target). Capital letters are type variables.
#include <deque>
#include <string>
#include <utility>

#include "api/cel/functions.h"
#include "api/cel/parser.h"

namespace tutti::api::cel {
namespace {

using Rule = CostRule;

struct FunctionLine {
  std::string_view name;
  Implementation run;
  bool has_cost = false;
  Rule cost = Rule::kOne;
};

constexpr FunctionLine kFunctions[] = {
    {"_?_:_", RunNever},
    {"_&&_", RunNever},
    {"_||_", RunNever},
    {"!_", RunNot},
    {kNotStrictlyFalse, RunNotStrictlyFalse},
    {"_==_", RunNever, true, Rule::kEquals},
    {"_!=_", RunNever, true, Rule::kMinimum},
    {"_[_]", RunNever},
    {"_[?_]", RunNever},
    {"_+_", RunAdd},
    {"_-_", RunSubtract},
    {"_*_", RunMultiply},
    {"_/_", RunDivide},
    {"_%_", RunModulo},
    {"-_", RunNegate},
    {"_<_", RunLess},
    {"_<=_", RunLessEquals},
    {"_>_", RunGreater},
    {"_>=_", RunGreaterEquals},
    {"@in", RunIn},
    {"size", RunSize},
    {"type", RunTypeOf},
    {"bool", RunToBool},
    {"bytes", RunToBytes},
    {"double", RunToDouble},
    {"duration", RunToDuration},
    {"dyn", RunToDyn},
    {"int", RunToInt},
    {"string", RunToString},
    {"timestamp", RunToTimestamp},
    {"uint", RunToUint},
    {"contains", RunContains},
    {"endsWith", RunEndsWith},
    {"startsWith", RunStartsWith},
    {"matches", RunMatches},
    {"getFullYear", RunFullYear},
    {"getMonth", RunMonth},
    {"getDayOfYear", RunDayOfYear},
    {"getDayOfMonth", RunDayOfMonth},
    {"getDate", RunDate},
    {"getDayOfWeek", RunDayOfWeek},
    {"getHours", RunHours},
    {"getMinutes", RunMinutes},
    {"getSeconds", RunSeconds},
    {"getMilliseconds", RunMilliseconds},
    {"charAt", RunCharAt},
    {"indexOf", RunIndexOf, true, Rule::kScan},
    {"lastIndexOf", RunLastIndexOf, true, Rule::kScan},
    {"lowerAscii", RunLowerAscii, true, Rule::kTraverse},
    {"upperAscii", RunUpperAscii, true, Rule::kTraverse},
    {"replace", RunReplace, true, Rule::kTraverseTwice},
    {"split", RunSplit, true, Rule::kTraverseTwice},
    {"substring", RunSubstring, true, Rule::kTraverse},
    {"trim", RunTrim, true, Rule::kTraverse},
    {"join", RunJoin, true, Rule::kJoin},
    {"format", RunFormatString},
    {"strings.quote", RunQuote},
    {"find", RunFind, true, Rule::kFind},
    {"findAll", RunFindAll, true, Rule::kFind},
    {"isSorted", RunIsSorted, true, Rule::kScan},
    {"sum", RunSum, true, Rule::kScan},
    {"max", RunMax, true, Rule::kScan},
    {"min", RunMin, true, Rule::kScan},
    {"slice", RunSlice},
    {"flatten", RunFlatten},
    {"sort", RunSort},
    {kSortByKeys, RunSortByKeys},
    {"lists.range", RunRange},
    {"reverse", RunReverse},
    {"distinct", RunDistinct},
    {"sets.contains", RunSetsContains},
    {"sets.equivalent", RunSetsEquivalent},
    {"sets.intersects", RunSetsIntersects},
    {kMapInsert, RunMapInsert},
    {"includes", RunIncludes},
    {"optional.of", RunOptionalOf},
    {"optional.ofNonZeroValue", RunOptionalOfNonZero},
    {"optional.none", RunOptionalNone},
    {"value", RunOptionalValue},
    {"hasValue", RunHasValue},
    {"or", RunNever},
    {"orValue", RunNever},
    {"optional.unwrap", RunUnwrap},
    {"unwrapOpt", RunUnwrap},
    {"first", RunFirst},
    {"last", RunLast},
    {"quantity", RunQuantity, true, Rule::kTraverse},
    {"isQuantity", RunIsQuantity, true, Rule::kTraverse},
    {"sign", RunSign},
    {"isGreaterThan", RunIsGreaterThan},
    {"isLessThan", RunIsLessThan},
    {"compareTo", RunCompareTo},
    {"asApproximateFloat", RunApproximateFloat},
    {"asInteger", RunAsInteger},
    {"isInteger", RunIsInteger},
    {"add", RunQuantityAdd},
    {"sub", RunQuantitySub},
    {"semver", RunSemver, true, Rule::kTraverse},
    {"isSemver", RunIsSemver, true, Rule::kTraverse},
    {"major", RunMajor},
    {"minor", RunMinor},
    {"patch", RunPatch},
    {"ip", RunIp},
    {"isIP", RunIsIp, true, Rule::kTraverse},
    {"ip.isCanonical", RunIpIsCanonical, true, Rule::kTraverseTwice},
    {"family", RunFamily},
    {"isUnspecified", RunIsUnspecified},
    {"isLoopback", RunIsLoopback},
    {"isLinkLocalMulticast", RunIsLinkLocalMulticast},
    {"isLinkLocalUnicast", RunIsLinkLocalUnicast},
    {"isGlobalUnicast", RunIsGlobalUnicast},
    {"cidr", RunCidr, true, Rule::kTraverse},
    {"isCIDR", RunIsCidr, true, Rule::kTraverse},
    {"containsIP", RunContainsIp, false, Rule::kContainsIp},
    {"containsCIDR", RunContainsCidr, false, Rule::kContainsCidr},
    {"prefixLength", RunPrefixLength},
    {"masked", RunMasked},
    {"url", RunUrl, true, Rule::kTraverse},
    {"isURL", RunIsUrl},
    {"getScheme", RunScheme},
    {"getHost", RunHost},
    {"getHostname", RunHostname},
    {"getPort", RunPort},
    {"getEscapedPath", RunEscapedPath},
    {"getQuery", RunQuery},
    {"format.named", RunNamedFormat},
    {"validate", RunValidate, true, Rule::kValidate},
    // The authorizer: no expression about devices can hold one.
    {"path", RunNever},
    {"group", RunNever},
    {"serviceAccount", RunNever},
    {"resource", RunNever},
    {"subresource", RunNever},
    {"namespace", RunNever},
    {"name", RunNever},
    {"check", RunNever, true, Rule::kAuthorization},
    {"errored", RunNever},
    {"error", RunNever},
    {"allowed", RunNever},
    {"reason", RunNever},
    {"fieldSelector", RunNever},
    {"labelSelector", RunNever},
};

// With one implementation for all overloads, which checks its arguments itself.
constexpr std::string_view kSingletons[] = {
    "!_",  "-_",   "_+_", "_-_",  "_*_",  "_/_", "_%_",  "_<_",       "_<=_",
    "_>_", "_>=_", "@in", "size", "type", "dyn", "sort", kSortByKeys, "matches",
};

struct OverloadLine {
  std::string_view function;
  std::string_view id;
  std::string_view signature;
  Rule cost = Rule::kOne;
};

constexpr OverloadLine kOverloads[] = {
    {"_?_:_", "conditional", "bool, A, A -> A"},
    {"_&&_", "logical_and", "bool, bool -> bool"},
    {"_||_", "logical_or", "bool, bool -> bool"},
    {"!_", "logical_not", "bool -> bool"},
    {kNotStrictlyFalse, "not_strictly_false", "bool -> bool"},
    {"_==_", "equals", "A, A -> bool"},
    {"_!=_", "not_equals", "A, A -> bool"},
    {"_+_", "add_bytes", "bytes, bytes -> bytes", Rule::kAdd},
    {"_+_", "add_double", "double, double -> double"},
    {"_+_", "add_duration_duration", "duration, duration -> duration"},
    {"_+_", "add_duration_timestamp", "duration, timestamp -> timestamp"},
    {"_+_", "add_timestamp_duration", "timestamp, duration -> timestamp"},
    {"_+_", "add_int64", "int, int -> int"},
    {"_+_", "add_list", "list<A>, list<A> -> list<A>"},
    {"_+_", "add_string", "string, string -> string", Rule::kAdd},
    {"_+_", "add_uint64", "uint, uint -> uint"},
    {"_/_", "divide_double", "double, double -> double"},
    {"_/_", "divide_int64", "int, int -> int"},
    {"_/_", "divide_uint64", "uint, uint -> uint"},
    {"_%_", "modulo_int64", "int, int -> int"},
    {"_%_", "modulo_uint64", "uint, uint -> uint"},
    {"_*_", "multiply_double", "double, double -> double"},
    {"_*_", "multiply_int64", "int, int -> int"},
    {"_*_", "multiply_uint64", "uint, uint -> uint"},
    {"-_", "negate_double", "double -> double"},
    {"-_", "negate_int64", "int -> int"},
    {"_-_", "subtract_double", "double, double -> double"},
    {"_-_", "subtract_duration_duration", "duration, duration -> duration"},
    {"_-_", "subtract_int64", "int, int -> int"},
    {"_-_", "subtract_timestamp_duration", "timestamp, duration -> timestamp"},
    {"_-_", "subtract_timestamp_timestamp", "timestamp, timestamp -> duration"},
    {"_-_", "subtract_uint64", "uint, uint -> uint"},
    {"_[_]", "index_list", "list<A>, int -> A"},
    {"_[_]", "index_map", "map<A,B>, A -> B"},
    {"_[_]", "optional_list_index_int", "optional<list<V>>, int -> optional<V>"},
    {"_[_]", "optional_map_index_value", "optional<map<K,V>>, K -> optional<V>"},
    {"_[?_]", "list_optindex_optional_int", "list<V>, int -> optional<V>"},
    {"_[?_]", "optional_list_optindex_optional_int", "optional<list<V>>, int -> optional<V>"},
    {"_[?_]", "map_optindex_optional_value", "map<K,V>, K -> optional<V>"},
    {"_[?_]", "optional_map_optindex_optional_value", "optional<map<K,V>>, K -> optional<V>"},
    {"@in", "in_list", "A, list<A> -> bool", Rule::kInList},
    {"@in", "in_map", "A, map<A,B> -> bool"},
    {"size", "size_bytes", "bytes -> int"},
    {"size", "bytes_size", ".bytes -> int"},
    {"size", "size_list", "list<A> -> int"},
    {"size", "list_size", ".list<A> -> int"},
    {"size", "size_map", "map<A,B> -> int"},
    {"size", "map_size", ".map<A,B> -> int"},
    {"size", "size_string", "string -> int"},
    {"size", "string_size", ".string -> int"},
    {"type", "type", "A -> type<A>"},
    {"bool", "bool_to_bool", "bool -> bool"},
    {"bool", "string_to_bool", "string -> bool"},
    {"bytes", "bytes_to_bytes", "bytes -> bytes"},
    {"bytes", "string_to_bytes", "string -> bytes", Rule::kTraverse},
    {"double", "double_to_double", "double -> double"},
    {"double", "int64_to_double", "int -> double"},
    {"double", "string_to_double", "string -> double"},
    {"double", "uint64_to_double", "uint -> double"},
    {"duration", "duration_to_duration", "duration -> duration"},
    {"duration", "int64_to_duration", "int -> duration"},
    {"duration", "string_to_duration", "string -> duration"},
    {"dyn", "to_dyn", "A -> dyn"},
    {"int", "int64_to_int64", "int -> int"},
    {"int", "double_to_int64", "double -> int"},
    {"int", "duration_to_int64", "duration -> int"},
    {"int", "string_to_int64", "string -> int"},
    {"int", "timestamp_to_int64", "timestamp -> int"},
    {"int", "uint64_to_int64", "uint -> int"},
    {"string", "string_to_string", "string -> string"},
    {"string", "bool_to_string", "bool -> string"},
    {"string", "bytes_to_string", "bytes -> string", Rule::kTraverse},
    {"string", "double_to_string", "double -> string"},
    {"string", "duration_to_string", "duration -> string"},
    {"string", "int64_to_string", "int -> string"},
    {"string", "timestamp_to_string", "timestamp -> string"},
    {"string", "uint64_to_string", "uint -> string"},
    {"string", "ip_to_string", "ip -> string"},
    {"string", "cidr_to_string", "cidr -> string"},
    {"timestamp", "timestamp_to_timestamp", "timestamp -> timestamp"},
    {"timestamp", "int64_to_timestamp", "int -> timestamp"},
    {"timestamp", "string_to_timestamp", "string -> timestamp"},
    {"uint", "uint64_to_uint64", "uint -> uint"},
    {"uint", "double_to_uint64", "double -> uint"},
    {"uint", "int64_to_uint64", "int -> uint"},
    {"uint", "string_to_uint64", "string -> uint"},
    {"contains", "contains_string", ".string, string -> bool", Rule::kContains},
    {"endsWith", "ends_with_string", ".string, string -> bool", Rule::kTraverse},
    {"startsWith", "starts_with_string", ".string, string -> bool", Rule::kTraverse},
    {"matches", "matches", "string, string -> bool"},
    {"matches", "matches_string", ".string, string -> bool", Rule::kFind},
    {"getFullYear", "timestamp_to_year", ".timestamp -> int"},
    {"getFullYear", "timestamp_to_year_with_tz", ".timestamp, string -> int"},
    {"getMonth", "timestamp_to_month", ".timestamp -> int"},
    {"getMonth", "timestamp_to_month_with_tz", ".timestamp, string -> int"},
    {"getDayOfYear", "timestamp_to_day_of_year", ".timestamp -> int"},
    {"getDayOfYear", "timestamp_to_day_of_year_with_tz", ".timestamp, string -> int"},
    {"getDayOfMonth", "timestamp_to_day_of_month", ".timestamp -> int"},
    {"getDayOfMonth", "timestamp_to_day_of_month_with_tz", ".timestamp, string -> int"},
    {"getDate", "timestamp_to_day_of_month_1_based", ".timestamp -> int"},
    {"getDate", "timestamp_to_day_of_month_1_based_with_tz", ".timestamp, string -> int"},
    {"getDayOfWeek", "timestamp_to_day_of_week", ".timestamp -> int"},
    {"getDayOfWeek", "timestamp_to_day_of_week_with_tz", ".timestamp, string -> int"},
    {"getHours", "timestamp_to_hours", ".timestamp -> int"},
    {"getHours", "timestamp_to_hours_with_tz", ".timestamp, string -> int"},
    {"getHours", "duration_to_hours", ".duration -> int"},
    {"getMinutes", "timestamp_to_minutes", ".timestamp -> int"},
    {"getMinutes", "timestamp_to_minutes_with_tz", ".timestamp, string -> int"},
    {"getMinutes", "duration_to_minutes", ".duration -> int"},
    {"getSeconds", "timestamp_to_seconds", ".timestamp -> int"},
    {"getSeconds", "timestamp_to_seconds_tz", ".timestamp, string -> int"},
    {"getSeconds", "duration_to_seconds", ".duration -> int"},
    {"getMilliseconds", "timestamp_to_milliseconds", ".timestamp -> int"},
    {"getMilliseconds", "timestamp_to_milliseconds_with_tz", ".timestamp, string -> int"},
    {"getMilliseconds", "duration_to_milliseconds", ".duration -> int"},
    {"charAt", "string_char_at_int", ".string, int -> string"},
    {"indexOf", "string_index_of_string", ".string, string -> int"},
    {"indexOf", "string_index_of_string_int", ".string, string, int -> int"},
    {"indexOf", "list_a_index_of_int", ".list<A>, A -> int"},
    {"lastIndexOf", "string_last_index_of_string", ".string, string -> int"},
    {"lastIndexOf", "string_last_index_of_string_int", ".string, string, int -> int"},
    {"lastIndexOf", "list_a_last_index_of_int", ".list<A>, A -> int"},
    {"lowerAscii", "string_lower_ascii", ".string -> string"},
    {"upperAscii", "string_upper_ascii", ".string -> string"},
    {"replace", "string_replace_string_string", ".string, string, string -> string"},
    {"replace", "string_replace_string_string_int", ".string, string, string, int -> string"},
    {"split", "string_split_string", ".string, string -> list<string>"},
    {"split", "string_split_string_int", ".string, string, int -> list<string>"},
    {"substring", "string_substring_int", ".string, int -> string"},
    {"substring", "string_substring_int_int", ".string, int, int -> string"},
    {"trim", "string_trim", ".string -> string"},
    {"join", "list_join", ".list<string> -> string"},
    {"join", "list_join_string", ".list<string>, string -> string"},
    {"format", "string_format", ".string, list<dyn> -> string", Rule::kTraverse},
    {"strings.quote", "strings_quote", "string -> string", Rule::kTraverse},
    {"find", "string_find_string", ".string, string -> string"},
    {"findAll", "string_find_all_string", ".string, string -> list<string>"},
    {"findAll", "string_find_all_string_int", ".string, string, int -> list<string>"},
    {"isSorted", "list_int_is_sorted_bool", ".list<int> -> bool"},
    {"isSorted", "list_uint_is_sorted_bool", ".list<uint> -> bool"},
    {"isSorted", "list_double_is_sorted_bool", ".list<double> -> bool"},
    {"isSorted", "list_bool_is_sorted_bool", ".list<bool> -> bool"},
    {"isSorted", "list_duration_is_sorted_bool", ".list<duration> -> bool"},
    {"isSorted", "list_timestamp_is_sorted_bool", ".list<timestamp> -> bool"},
    {"isSorted", "list_string_is_sorted_bool", ".list<string> -> bool"},
    {"isSorted", "list_bytes_is_sorted_bool", ".list<bytes> -> bool"},
    {"sum", "list_int_sum_int", ".list<int> -> int"},
    {"sum", "list_uint_sum_uint", ".list<uint> -> uint"},
    {"sum", "list_double_sum_double", ".list<double> -> double"},
    {"sum", "list_duration_sum_duration", ".list<duration> -> duration"},
    {"max", "list_int_max_int", ".list<int> -> int"},
    {"max", "list_uint_max_uint", ".list<uint> -> uint"},
    {"max", "list_double_max_double", ".list<double> -> double"},
    {"max", "list_bool_max_bool", ".list<bool> -> bool"},
    {"max", "list_duration_max_duration", ".list<duration> -> duration"},
    {"max", "list_timestamp_max_timestamp", ".list<timestamp> -> timestamp"},
    {"max", "list_string_max_string", ".list<string> -> string"},
    {"max", "list_bytes_max_bytes", ".list<bytes> -> bytes"},
    {"min", "list_int_min_int", ".list<int> -> int"},
    {"min", "list_uint_min_uint", ".list<uint> -> uint"},
    {"min", "list_double_min_double", ".list<double> -> double"},
    {"min", "list_bool_min_bool", ".list<bool> -> bool"},
    {"min", "list_duration_min_duration", ".list<duration> -> duration"},
    {"min", "list_timestamp_min_timestamp", ".list<timestamp> -> timestamp"},
    {"min", "list_string_min_string", ".list<string> -> string"},
    {"min", "list_bytes_min_bytes", ".list<bytes> -> bytes"},
    {"slice", "list_slice", ".list<T>, int, int -> list<T>", Rule::kListOutput},
    {"flatten", "list_flatten", ".list<list<T>> -> list<T>", Rule::kFlatten},
    {"flatten", "list_flatten_int", ".list<dyn>, int -> list<dyn>", Rule::kFlatten},
    {"sort", "list_int_sort", ".list<int> -> list<int>", Rule::kCompareAll},
    {"sort", "list_uint_sort", ".list<uint> -> list<uint>", Rule::kCompareAll},
    {"sort", "list_double_sort", ".list<double> -> list<double>", Rule::kCompareAll},
    {"sort", "list_bool_sort", ".list<bool> -> list<bool>", Rule::kCompareAll},
    {"sort", "list_duration_sort", ".list<duration> -> list<duration>", Rule::kCompareAll},
    {"sort", "list_timestamp_sort", ".list<timestamp> -> list<timestamp>", Rule::kCompareAll},
    {"sort", "list_string_sort", ".list<string> -> list<string>", Rule::kCompareAll},
    {"sort", "list_bytes_sort", ".list<bytes> -> list<bytes>", Rule::kCompareAll},
    {kSortByKeys, "list_int_sortBy", ".list<T>, list<int> -> list<T>", Rule::kCompareAllKeys},
    {kSortByKeys, "list_uint_sortBy", ".list<T>, list<uint> -> list<T>", Rule::kCompareAllKeys},
    {kSortByKeys, "list_double_sortBy", ".list<T>, list<double> -> list<T>", Rule::kCompareAllKeys},
    {kSortByKeys, "list_bool_sortBy", ".list<T>, list<bool> -> list<T>", Rule::kCompareAllKeys},
    {kSortByKeys, "list_duration_sortBy", ".list<T>, list<duration> -> list<T>",
     Rule::kCompareAllKeys},
    {kSortByKeys, "list_timestamp_sortBy", ".list<T>, list<timestamp> -> list<T>",
     Rule::kCompareAllKeys},
    {kSortByKeys, "list_string_sortBy", ".list<T>, list<string> -> list<T>", Rule::kCompareAllKeys},
    {kSortByKeys, "list_bytes_sortBy", ".list<T>, list<bytes> -> list<T>", Rule::kCompareAllKeys},
    {"lists.range", "lists_range", "int -> list<int>", Rule::kListOutput},
    {"reverse", "list_reverse", ".list<T> -> list<T>", Rule::kListOutput},
    {"distinct", "list_distinct", ".list<T> -> list<T>", Rule::kCompareAll},
    {"sets.contains", "list_sets_contains_list", "list<T>, list<T> -> bool", Rule::kSets},
    {"sets.equivalent", "list_sets_equivalent_list", "list<T>, list<T> -> bool", Rule::kSetsTwice},
    {"sets.intersects", "list_sets_intersects_list", "list<T>, list<T> -> bool", Rule::kSets},
    {kMapInsert, "@mapInsert_map_key_value", "map<K,V>, K, V -> map<K,V>"},
    {kMapInsert, "@mapInsert_map_map", "map<K,V>, map<K,V> -> map<K,V>"},
    {"includes", "dra_includes_dyn_dyn", ".dyn, dyn -> bool"},
    {"optional.of", "optional_of", "V -> optional<V>"},
    {"optional.ofNonZeroValue", "optional_ofNonZeroValue", "V -> optional<V>"},
    {"optional.none", "optional_none", " -> optional<V>"},
    {"value", "optional_value", ".optional<V> -> V"},
    {"hasValue", "optional_hasValue", ".optional<V> -> bool"},
    {"or", "optional_or_optional", ".optional<V>, optional<V> -> optional<V>"},
    {"orValue", "optional_orValue_value", ".optional<V>, V -> V"},
    {"optional.unwrap", "optional_unwrap", "list<optional<V>> -> list<V>"},
    {"unwrapOpt", "optional_unwrapOpt", ".list<optional<V>> -> list<V>"},
    {"first", "list_first", ".list<V> -> optional<V>"},
    {"last", "list_last", ".list<V> -> optional<V>"},
    {"quantity", "string_to_quantity", "string -> quantity"},
    {"isQuantity", "is_quantity_string", "string -> bool"},
    {"sign", "quantity_sign", "quantity -> int"},
    {"isGreaterThan", "quantity_is_greater_than", ".quantity, quantity -> bool"},
    {"isGreaterThan", "semver_is_greater_than", ".semver, semver -> bool"},
    {"isLessThan", "quantity_is_less_than", ".quantity, quantity -> bool"},
    {"isLessThan", "semver_is_less_than", ".semver, semver -> bool"},
    {"compareTo", "quantity_compare_to", ".quantity, quantity -> int"},
    {"compareTo", "semver_compare_to", ".semver, semver -> int"},
    {"asApproximateFloat", "quantity_get_float", ".quantity -> double"},
    {"asInteger", "quantity_get_int", ".quantity -> int"},
    {"isInteger", "quantity_is_integer", ".quantity -> bool"},
    {"add", "quantity_add", ".quantity, quantity -> quantity"},
    {"add", "quantity_add_int", ".quantity, int -> quantity"},
    {"sub", "quantity_sub", ".quantity, quantity -> quantity"},
    {"sub", "quantity_sub_int", ".quantity, int -> quantity"},
    {"semver", "string_to_semver", "string -> semver"},
    {"semver", "string_bool_to_semver", "string, bool -> semver"},
    {"isSemver", "is_semver_string", "string -> bool"},
    {"isSemver", "is_semver_string_bool", "string, bool -> bool"},
    {"major", "semver_major", ".semver -> int"},
    {"minor", "semver_minor", ".semver -> int"},
    {"patch", "semver_patch", ".semver -> int"},
    {"ip", "string_to_ip", "string -> ip", Rule::kTraverse},
    {"ip", "cidr_ip", ".cidr -> ip"},
    {"isIP", "is_ip", "string -> bool"},
    {"ip.isCanonical", "ip_is_canonical", "string -> bool"},
    {"family", "ip_family", ".ip -> int"},
    {"isUnspecified", "ip_is_unspecified", ".ip -> bool"},
    {"isLoopback", "ip_is_loopback", ".ip -> bool"},
    {"isLinkLocalMulticast", "ip_is_link_local_multicast", ".ip -> bool"},
    {"isLinkLocalUnicast", "ip_is_link_local_unicast", ".ip -> bool"},
    {"isGlobalUnicast", "ip_is_global_unicast", ".ip -> bool"},
    {"cidr", "string_to_cidr", "string -> cidr"},
    {"isCIDR", "is_cidr", "string -> bool"},
    {"containsIP", "cidr_contains_ip_string", ".cidr, string -> bool", Rule::kContainsIpText},
    {"containsIP", "cidr_contains_ip_ip", ".cidr, ip -> bool", Rule::kContainsIp},
    {"containsCIDR", "cidr_contains_cidr_string", ".cidr, string -> bool", Rule::kContainsCidrText},
    {"containsCIDR", "cidr_contains_cidr", ".cidr, cidr -> bool", Rule::kContainsCidr},
    {"prefixLength", "cidr_prefix_length", ".cidr -> int"},
    {"masked", "cidr_masked", ".cidr -> cidr"},
    {"url", "string_to_url", "string -> url"},
    {"isURL", "is_url_string", "string -> bool"},
    {"getScheme", "url_get_scheme", ".url -> string"},
    {"getHost", "url_get_host", ".url -> string"},
    {"getHostname", "url_get_hostname", ".url -> string"},
    {"getPort", "url_get_port", ".url -> string"},
    {"getEscapedPath", "url_get_escaped_path", ".url -> string"},
    {"getQuery", "url_get_query", ".url -> map<string,list<string>>"},
    {"format.named", "format-named", "string -> optional<format>"},
    {"validate", "format-validate", ".format, string -> optional<list<string>>"},
    {"path", "authorizer_path", ".authorizer, string -> path_check"},
    {"group", "authorizer_group", ".authorizer, string -> group_check"},
    {"serviceAccount", "authorizer_serviceaccount", ".authorizer, string, string -> authorizer"},
    {"resource", "groupcheck_resource", ".group_check, string -> resource_check"},
    {"subresource", "resourcecheck_subresource", ".resource_check, string -> resource_check"},
    {"namespace", "resourcecheck_namespace", ".resource_check, string -> resource_check"},
    {"name", "resourcecheck_name", ".resource_check, string -> resource_check"},
    {"check", "pathcheck_check", ".path_check, string -> decision"},
    {"check", "resourcecheck_check", ".resource_check, string -> decision"},
    {"errored", "decision_errored", ".decision -> bool"},
    {"error", "decision_error", ".decision -> string"},
    {"allowed", "decision_allowed", ".decision -> bool"},
    {"reason", "decision_reason", ".decision -> string"},
    {"fieldSelector", "authorizer_fieldselector", ".resource_check, string -> resource_check"},
    {"labelSelector", "authorizer_labelselector", ".resource_check, string -> resource_check"},
};

// Each is a function format.<name>() of its own, whose overload has the same name.
constexpr std::string_view kFormats[] = {
    "format.dns1123Label",
    "format.dns1123Subdomain",
    "format.dns1035Label",
    "format.qualifiedName",
    "format.dns1123LabelPrefix",
    "format.dns1123SubdomainPrefix",
    "format.dns1035LabelPrefix",
    "format.labelValue",
    "format.uri",
    "format.uuid",
    "format.byte",
    "format.date",
    "format.datetime",
};

struct Table {
  TypePool pool;
  std::map<std::string_view, Function> functions;
  std::string variables;  // of the signature that is being read

  std::deque<std::string> names;  // of the overloads of comparisons

  std::string_view rest;

  // Comparisons: of like with like, and of any two numbers.
  void AddComparisons(std::string_view function, std::string_view prefix) {
    static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
        {"bool", "bool"},         {"int64", "int"},           {"uint64", "uint"},
        {"double", "double"},     {"string", "string"},       {"bytes", "bytes"},
        {"duration", "duration"}, {"timestamp", "timestamp"},
    };
    const auto is_number = [](std::string_view type) {
      return type == "int" || type == "uint" || type == "double";
    };
    for (const auto& [left_id, left] : kTypes) {
      for (const auto& [right_id, right] : kTypes) {
        if (left != right && !(is_number(left) && is_number(right))) {
          continue;
        }
        std::string& id = names.emplace_back(std::string(prefix) + "_" + std::string(left_id));
        if (left != right) {
          id += "_" + std::string(right_id);
        }
        const std::string signature = std::string(left) + ", " + std::string(right) + " -> bool";
        const bool text = left == "string" || left == "bytes";
        Add({function, id, signature, text ? Rule::kMinimum : Rule::kOne});
      }
    }
  }

  void SkipSpaces() {
    while (!rest.empty() && rest[0] == ' ') {
      rest.remove_prefix(1);
    }
  }

  const TypeNode* Named(std::string_view name) {
    static constexpr std::pair<std::string_view, const TypeNode*> kNames[] = {
        {"dyn", &types::kDyn},
        {"bool", &types::kBool},
        {"int", &types::kInt},
        {"uint", &types::kUint},
        {"double", &types::kDouble},
        {"string", &types::kString},
        {"bytes", &types::kBytes},
        {"timestamp", &types::kTimestamp},
        {"duration", &types::kDuration},
        {"quantity", &types::kQuantity},
        {"semver", &types::kSemver},
        {"url", &types::kUrl},
        {"format", &types::kFormat},
        {"ip", &types::kIp},
        {"cidr", &types::kCidr},
        {"authorizer", &types::kAuthorizer},
        {"path_check", &types::kPathCheck},
        {"group_check", &types::kGroupCheck},
        {"resource_check", &types::kResourceCheck},
        {"decision", &types::kDecision},
    };
    for (const auto& [known, type] : kNames) {
      if (known == name) {
        return type;
      }
    }
    // A type variable: one capital letter.
    size_t at = variables.find(name);
    if (at == std::string::npos) {
      at = variables.size();
      variables += name;
    }
    return pool.Variable(static_cast<uint32_t>(at));
  }

  const TypeNode* ReadType() {
    const size_t end = rest.find_first_of("<>, ");
    const std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end, rest.size()));
    if (rest.empty() || rest[0] != '<') {
      return Named(name);
    }
    std::vector<const TypeNode*> parameters;
    do {
      rest.remove_prefix(1);
      parameters.push_back(ReadType());
    } while (!rest.empty() && rest[0] == ',');
    rest.remove_prefix(1);
    return pool.Make(name == "list"       ? TypeKind::kList
                     : name == "map"      ? TypeKind::kMap
                     : name == "optional" ? TypeKind::kOptional
                                          : TypeKind::kType,
                     std::move(parameters));
  }

  void Add(const OverloadLine& line) {
    Function& function = functions.at(line.function);
    Overload& overload = function.overloads.emplace_back();
    overload.id = line.id;
    overload.function = &function;
    overload.cost = line.cost;
    rest = line.signature;
    variables.clear();
    overload.member = rest[0] == '.';
    rest.remove_prefix(overload.member ? 1 : 0);
    SkipSpaces();
    while (!rest.starts_with("->")) {
      overload.args.push_back(ReadType());
      if (rest.starts_with(",")) {
        rest.remove_prefix(1);
      }
      SkipSpaces();
    }
    rest.remove_prefix(2);
    SkipSpaces();
    overload.result = ReadType();
    overload.variables = static_cast<uint32_t>(variables.size());
  }

  Table() {
    for (const FunctionLine& line : kFunctions) {
      Function& function = functions[line.name];
      function.name = line.name;
      function.run = line.run;
      function.has_cost = line.has_cost;
      function.cost = line.cost;
    }
    for (const std::string_view name : kSingletons) {
      functions.at(name).singleton = true;
    }
    for (const OverloadLine& line : kOverloads) {
      Add(line);
    }
    AddComparisons("_<_", "less");
    AddComparisons("_<=_", "less_equals");
    AddComparisons("_>_", "greater");
    AddComparisons("_>=_", "greater_equals");
    for (const std::string_view name : kFormats) {
      Function& function = functions[name];
      function.name = name;
      function.run = RunFormat;
      Add({name, name, " -> format"});
    }
  }
};

// The parameters of maps, optionals and types are variables everywhere.
bool Takes(const TypeNode& type, const Value& value) {
  switch (type.kind) {
    case TypeKind::kNull:
      return value.kind == Kind::kNull;
    case TypeKind::kBool:
      return value.kind == Kind::kBool;
    case TypeKind::kInt:
      return value.kind == Kind::kInt;
    case TypeKind::kUint:
      return value.kind == Kind::kUint;
    case TypeKind::kDouble:
      return value.kind == Kind::kDouble;
    case TypeKind::kString:
      return value.kind == Kind::kString;
    case TypeKind::kBytes:
      return value.kind == Kind::kBytes;
    case TypeKind::kTimestamp:
      return value.kind == Kind::kTimestamp;
    case TypeKind::kDuration:
      return value.kind == Kind::kDuration;
    case TypeKind::kList:
      return value.kind == Kind::kList &&
             (ListSize(value) == 0 || Takes(*type.parameters[0], ListGet(*value.list, 0)));
    case TypeKind::kMap:
      return value.kind == Kind::kMap;
    case TypeKind::kOptional:
      return value.kind == Kind::kOptional;
    case TypeKind::kType:
      return value.kind == Kind::kType;
    case TypeKind::kStruct:
    case TypeKind::kOpaque:
      return TypeName(value) == type.name;
    case TypeKind::kDyn:
    case TypeKind::kAny:
    case TypeKind::kError:
    case TypeKind::kVariable:
      return true;
  }
  return false;
}

}  // namespace

bool Takes(const Overload& overload, const Value* args, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!Takes(*overload.args[i], args[i])) {
      return false;
    }
  }
  return true;
}

const Function* FindFunction(std::string_view name) {
  static const Table table;
  const auto it = table.functions.find(name);
  return it == table.functions.end() ? nullptr : &it->second;
}

}  // namespace tutti::api::cel
