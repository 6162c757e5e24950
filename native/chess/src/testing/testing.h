// A test harness in one header: TEST(name) { CHECK(...); CHECK_EQ(a, b); }, and TEST_MAIN() once in each test program.
#pragma once

#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ludus::testing {

using Body = void (*)();

inline std::vector<std::pair<std::string, Body>>& all() {
  static std::vector<std::pair<std::string, Body>> tests;
  return tests;
}

struct Registered {
  Registered(const char* name, Body body) { all().emplace_back(name, body); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::ostringstream text;
  text << file << ':' << line << ": " << what;
  throw std::runtime_error(text.str());
}

template <typename A, typename B>
void check_equal(const A& a, const B& b, const char* expression, const char* file, int line) {
  if (a == b) return;
  std::ostringstream text;
  text << expression << ": " << a << " is not " << b;
  fail(file, line, text.str());
}

inline int run_all() {
  int failed = 0;
  for (const auto& [name, body] : all()) {
    try {
      body();
    } catch (const std::exception& error) {
      std::cerr << "FAILED " << name << ": " << error.what() << '\n';
      ++failed;
    }
  }
  std::cerr << all().size() - failed << " passed, " << failed << " failed\n";
  return failed == 0 ? 0 : 1;
}

}  // namespace ludus::testing

#define TEST(name)                                                           \
  static void test_##name();                                                 \
  static const ludus::testing::Registered registered_##name(#name, test_##name); \
  static void test_##name()
#define CHECK(condition) \
  if (!(condition)) ludus::testing::fail(__FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) ludus::testing::check_equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_THROWS(expression)                                                    \
  do {                                                                              \
    bool thrown = false;                                                            \
    try {                                                                           \
      static_cast<void>(expression);                                                \
    } catch (const std::exception&) {                                               \
      thrown = true;                                                                \
    }                                                                               \
    if (!thrown) ludus::testing::fail(__FILE__, __LINE__, #expression " did not throw"); \
  } while (false)
#define TEST_MAIN() \
  int main() { return ludus::testing::run_all(); }
