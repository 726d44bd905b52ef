// main() of the test programs. `--file=NAME` runs the cases of NAME.cc alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

namespace {

/// The cases of a source as a positive filter of GoogleTest; empty when there are none.
std::string cases_of(std::string_view file) {
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  std::string cases;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::filesystem::path(test.file()).stem() != file) continue;
      cases.append(cases.empty() ? "" : ":").append(suite.name()).append(".").append(test.name());
    }
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFile = "--file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFile)) {
      std::cerr << "expected --file=NAME or an option of GoogleTest, found " << argument << '\n';
      return 2;
    }
    const std::string cases = cases_of(argument.substr(kFile.size()));
    if (cases.empty()) {
      std::cerr << "expected a source of this program, found " << argument << '\n';
      return 2;
    }
    // Cases that a filter leaves out stay out.
    const std::string filter = GTEST_FLAG_GET(filter);
    const std::size_t minus = filter.find('-');
    GTEST_FLAG_SET(filter, cases + (minus == std::string::npos ? "" : filter.substr(minus)));
  }
  return RUN_ALL_TESTS();
}
