// SPDX-License-Identifier: Apache-2.0
#include "api/cel/device_selector.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tutti::api::cel {
namespace {

SelectorDevice Gpu() {
  SelectorDevice device;
  device.driver = "gpu.example.com";
  auto& own = device.attributes["gpu.example.com"];
  own["model"] = std::string("A100");
  own["index"] = int64_t{3};
  own["healthy"] = true;
  own["driverVersion"] = Version{"550.54.15"};
  own["firmware"] = Version{"1.0.0-rc.2"};
  device.attributes["numa.example.com"]["node"] = int64_t{1};
  auto& capacity = device.capacity["gpu.example.com"];
  capacity["memory"] = *Quantity::Parse("80Gi");
  capacity["slices"] = *Quantity::Parse("7");
  return device;
}

// "true", "false", "error: …" or "refused: …".
std::string Verdict(std::string_view expression, const SelectorDevice& device = Gpu(),
                    Features features = {}) {
  const auto selector = DeviceSelector::Compile(expression, features);
  if (!selector) {
    return "refused: " + selector.error().message;
  }
  const Result<bool> matches = (*selector)->Matches(device);
  if (!matches) {
    return "error: " + matches.error().message;
  }
  return *matches ? "true" : "false";
}

void ExpectAll(std::string_view wanted, const std::vector<std::string>& expressions) {
  for (const std::string& expression : expressions) {
    const std::string verdict = Verdict(expression);
    EXPECT_EQ(verdict.substr(0, wanted.size()), wanted) << expression << "\n  " << verdict;
  }
}

TEST(DeviceSelectorTest, LooksAtTheDevice) {
  ExpectAll(
      "true",
      {
          R"(device.driver == "gpu.example.com")",
          R"(device.attributes["gpu.example.com"].model == "A100")",
          R"(device.attributes["gpu.example.com"]["index"] > 2)",
          R"(device.attributes["gpu.example.com"].healthy)",
          R"(device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0)",
          R"(device.capacity["gpu.example.com"].memory == quantity("80Gi"))",
          R"(device.capacity["gpu.example.com"].slices.asInteger() == 7)",
          R"(device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("550.0.0")))",
          R"(device.attributes["gpu.example.com"].firmware.isLessThan(semver("1.0.0")))",
          R"(!device.allowMultipleAllocations)",
          R"("numa.example.com" in device.attributes)",
          R"(cel.bind(d, device.attributes["gpu.example.com"], d.healthy && d.index == 3))",
      });
  ExpectAll("false", {
                         R"(device.driver == "other")",
                         R"("model" in device.attributes["nowhere"])",
                         R"(has(device.attributes["gpu.example.com"].missing))",
                         R"("nowhere" in device.attributes)",
                     });
}

TEST(DeviceSelectorTest, WhatIsMissingIsAnErrorUnlessItIsGuarded) {
  ExpectAll("error: no such key: missing",
            {
                R"(device.attributes["gpu.example.com"].missing == 1)",
                R"(device.attributes["nowhere"].missing == 1)",
                R"(sign(device.capacity["nowhere"].missing) == 1)",
            });
  ExpectAll(
      "true",
      {
          R"(device.attributes["gpu.example.com"].?missing.orValue(1) == 1)",
          R"(device.attributes["gpu.example.com"][?"index"].orValue(1) == 3)",
          R"(!has(device.attributes["x"].y) || device.attributes["x"].y > 5)",
          R"(device.attributes["x"].y || true)",
          R"(true || device.attributes["x"].y)",
          R"(has(device.attributes.nowhere))",  // every domain is there, perhaps empty
          R"(device.attributes["gpu.example.com"].?model.optMap(m, m == "A100").orValue(false))",
      });
}

TEST(DeviceSelectorTest, RefusesWhatDoesNotTypeCheck) {
  ExpectAll("refused", {
                           "",
                           "1 +",
                           "device.driver",
                           "device.driver == 1",
                           "device.nothing == 1",
                           "nothing",
                           "nothing()",
                           R"(device.driver.matches("("))",
                           R"([1, "a"].size() == 2)",
                           R"(duration("1 year") > duration("1s"))",
                           R"("%d".format(["a"]) == "a")",
                           "dyn(true)",
                           R"(device.attributes["a"].b.exists(x, x))",
                           R"(device.attributes["a"].b.includes(1))",
                           "has(device)",
                           "`device`.driver == 'a'",
                       });
  EXPECT_EQ(Verdict("true &&\n  nothing"),
            "refused: line 2, column 3: there is no variable \"nothing\"");
}

TEST(DeviceSelectorTest, ListAttributesNeedTheirGate) {
  SelectorDevice device = Gpu();
  device.attributes["gpu.example.com"]["modes"] = std::vector<std::string>{"a", "b"};
  EXPECT_EQ(Verdict("true", device).substr(0, 6), "error:");
  const Features lists{.list_type_attributes = true};
  EXPECT_EQ(Verdict(R"(device.attributes["gpu.example.com"].modes.includes("b"))", device, lists),
            "true");
  EXPECT_EQ(
      Verdict(R"(device.attributes["gpu.example.com"].modes.exists(m, m == "c"))", device, lists),
      "false");
}

TEST(DeviceSelectorTest, ComputesAsTheStandardSays) {
  ExpectAll(
      "true",
      {
          "1 + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 3 == -1",
          "1 < 1.5 && 2u > 1 && dyn(1) == 1.0",
          "0.1 + 0.2 != 0.3",
          "'a' + 'b' == 'ab' && b'a' < b'b'",
          "[1, 2] + [3] == [1, 2, 3]",
          "{'a': 1}.a == 1 && dyn({1: 'x'})[1u] == 'x'",
          "(false ? 1 / 0 : 2) == 2",
          "1 / 0 > 0 || true",
          "!(false && 1 / 0 > 0)",
          "[1, 2, 3].exists_one(x, x > 2) && [1, 2].all(x, x > 0)",
          "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6] && [1, 2, 3].filter(x, x != 2) == [1, 3]",
          "['a', 'b'].transformList(i, v, string(i) + v) == ['0a', '1b']",
          "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
          "type(1) == int && type([1]) == list",
          "int('12') == 12 && double('1e3') == 1000.0 && string(1.5) == '1.5'",
          "timestamp('2024-02-29T12:00:00Z').getDayOfMonth() == 28",
          "timestamp('2024-02-29T12:00:00+02:00').getHours('-01:00') == 9",
          "duration('90m').getHours() == 1 && string(duration('1.5s')) == '1.5s'",
          "'Grüße'.size() == 5 && 'abc'.substring(1) == 'bc' && 'a,b'.split(',') == ['a', 'b']",
          "'%s is %.2f'.format(['x', 1234.5]) == 'x is 1,234.50'",
          "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'abc'.matches('b')",
          "[3, 1, 2].sort() == [1, 2, 3] && ['bb', 'a'].sortBy(x, x.size()) == ['a', 'bb']",
          "sets.contains([1, 2], [2]) && [1, 2].sum() == 3 && [[1], [2]].flatten() == [1, 2]",
          "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.2.3.4')",
          "url('https://a:80/b?c=d').getPort() == '80' && !isURL('x')",
          "!format.dns1123Label().validate('a-b').hasValue()",
          "semver('v1.2', true) == semver('1.2.0')",
          "quantity('1.5').add(quantity('500m')) == quantity('2')",
          "optional.of(1).or(optional.of(2)).value() == 1",
      });
  ExpectAll("error", {
                         "9223372036854775807 + 1 > 0",
                         "1 / 0 == 0",
                         "[1][1] == 1",
                         "optional.none().value() == 1",
                         "dyn(1) + dyn('a') == 1",
                         "sign(quantity('x')) == 0",
                     });
}

TEST(DeviceSelectorTest, TheOverloadThatTheCheckerFoundIsTheOneThatIsCalled) {
  ExpectAll("error: no such overload",
            {
                // The type of value() was bound to a quantity.
                "quantity('1').add(dyn(optional.of(0)).value()).isInteger()",
                "(true ? dyn(['b', 'a']) : 1).reverse().isSorted()",
                "dyn([1]).join() == '1'",
            });
  ExpectAll("true", {
                        "quantity('1').add(dyn(0)).isInteger()",
                        "dyn(['a', 'b']).isSorted()",
                    });
}

TEST(DeviceSelectorTest, AnErrorWhoseCostCannotBeToldIsNotAbsorbed) {
  ExpectAll("error: the cost",
            {"[[1]][1].distinct() == [] || true", "[[1]][1].sort() == [] || true"});
  ExpectAll("true", {"[[1]][1].reverse() == [] || true"});
}

TEST(DeviceSelectorTest, CostIsLimited) {
  const std::string loops =
      "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, "
      "[0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, "
      "a >= 0))))))";
  EXPECT_EQ(Verdict(loops), "error: the cost limit of 1000000 is exceeded");
  // Nothing absorbs that error.
  EXPECT_EQ(Verdict("(" + loops + ") || true"), "error: the cost limit of 1000000 is exceeded");
}

TEST(DeviceSelectorTest, HostileExpressionsEnd) {
  const std::vector<std::string> expressions = {
      std::string(10'000, '('),
      std::string(10'000, '['),
      std::string(10'000, '!') + "true",
      "true" + std::string(4'000, '&'),
      std::string(5'000, '-') + "1 > 0",
      "lists.range(1000000000).size() > 0",
      "lists.range(9223372036854775807).size() > 0",
  };
  for (const std::string& expression : expressions) {
    EXPECT_NE(Verdict(expression).substr(0, 5), "false") << expression.substr(0, 40);
  }
  EXPECT_EQ(Verdict(std::string(10'241, ' ')).substr(0, 8), "refused:");

  // Chains of operators in the left operand of others: deep, though no rule is nested often.
  std::string deep = "1";
  while (deep.size() < 10'000) {
    deep = "(" + deep + "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1)";
  }
  EXPECT_EQ(Verdict(deep + " > 0").substr(0, 8), "refused:");

  // Each level doubles the list, the type, or the tree.
  std::string lists = "1 in x";
  std::string types = "x == x";
  for (int i = 0; i < 60; ++i) {
    lists = "cel.bind(x, x + x, " + lists + ")";
    types = "cel.bind(x, {x: x}, " + types + ")";
  }
  EXPECT_EQ(Verdict("cel.bind(x, [2], " + lists + ")").substr(0, 6), "error:");
  EXPECT_EQ(Verdict("cel.bind(x, 2, " + types + ")").substr(0, 8), "refused:");
  std::string copies = "optional.of(1)";
  for (int i = 0; i < 60; ++i) {
    copies += ".optMap(x, x)";
  }
  EXPECT_EQ(Verdict(copies + ".hasValue()").substr(0, 8), "refused:");
}

TEST(DeviceSelectorTest, OneSelectorServesManyThreads) {
  const auto selector = DeviceSelector::Compile(
      R"(device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) > 0)");
  ASSERT_TRUE(selector.has_value());
  std::vector<std::thread> threads;
  std::vector<int> matched(4, 0);
  for (int& count : matched) {
    threads.emplace_back([&selector, &count] {
      const SelectorDevice device = Gpu();
      for (int i = 0; i < 1000; ++i) {
        const Result<bool> matches = (*selector)->Matches(device);
        count += matches && *matches ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(matched, std::vector<int>(4, 1000));
}

}  // namespace
}  // namespace tutti::api::cel
