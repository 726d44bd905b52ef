// Parts of the program that are tested without a process of their own.
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "output.h"
#include "usage.h"

namespace longformer::cli {
namespace {

/// A verb with the arguments that were typed.
struct Typed {
  explicit Typed(std::vector<std::string> words) : typed(words) {
    verb.add_option("-n,--warmup-steps", number)->type_name("N");
    verb.add_option("--max-seq-length", number)->type_name("N");
    verb.add_option("--teacher", file)->type_name("FOLDER");
    for (std::string& word : words) word = normalized(word);
    verb.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  }

  CLI::App verb;
  std::int64_t number = 0;
  std::string file;
  std::vector<std::string> typed;
};

Error about_option(const std::string& option) {
  return Error(
      ErrorParts{.subject = "words that nobody reads", .reason = "any words", .option = option});
}

std::string usage_of(const Error& error, const Typed& typed) {
  const auto usage = usage_error_of(error, typed.verb, typed.typed);
  return usage ? usage->what() : "";
}

TEST(Usage, TheFieldOfAnErrorNamesTheFlagWhateverItsWords) {
  EXPECT_EQ(usage_of(about_option("warmup_steps"), Typed({"--warmup-steps", "3"})),
            "--warmup-steps: any words");
  EXPECT_EQ(usage_of(about_option("training.warmup_steps"), Typed({"--warmup_steps=3"})),
            "--warmup_steps: any words");
  EXPECT_EQ(usage_of(about_option("n"), Typed({"-n", "3"})), "-n: any words");
  EXPECT_EQ(usage_of(about_option("masking.max_seq_length"), Typed({"--max-seq-length", "3"})),
            "--max-seq-length: any words");
}

TEST(Usage, AnErrorOfNoTypedValueIsNone) {
  EXPECT_EQ(usage_of(about_option("warmup_steps"), Typed({})), "");
  EXPECT_EQ(usage_of(about_option("unknown"), Typed({"-n", "3"})), "");
  EXPECT_EQ(usage_of(about_option("teacher"), Typed({"--teacher", "folder"})), "");
  EXPECT_EQ(usage_of(Error("warmup steps: expected more"), Typed({"-n", "3"})), "");
}

TEST(Usage, AMistakeHasTheNameThatWasTyped) {
  const Typed typed({"--warmup_steps=3"});
  const auto message = [&](const UsageError& error) {
    return with_typed_option(error, typed.verb, typed.typed);
  };
  EXPECT_EQ(message(UsageError("--warmup-steps", "any: words")), "--warmup_steps: any: words");
  EXPECT_EQ(message(UsageError("-n", "any words")), "-n: any words");
  EXPECT_EQ(message(UsageError("--unknown", "any words")), "--unknown: any words");
  EXPECT_EQ(message(UsageError("--warmup-steps: in words")), "--warmup-steps: in words");
}

TEST(Output, AFractionAboveItsBoundIsSaidAsThat) {
  EXPECT_EQ(bound_text(0.876), "0.88");
  EXPECT_EQ(bound_text(0.0123, 3), "0.012");
  EXPECT_EQ(bound_text(1), "1.00");
  EXPECT_EQ(bound_text(1.08), "≥ 1");
}

TEST(Usage, RemediesFollowTheReason) {
  const Error error({.subject = "stride",
                     .reason = "any words",
                     .option = "warmup_steps",
                     .remedies = {Remedy::format}});
  EXPECT_EQ(usage_of(error, Typed({"-n", "3"})), "-n: any words (--format names it)");
}

}  // namespace
}  // namespace longformer::cli
