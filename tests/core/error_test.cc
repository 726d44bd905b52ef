#include "core/error.h"

#include <gtest/gtest.h>

namespace longformer::error_test {
namespace {

Error thrown_by(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("expected an error, found none");
}

TEST(Error, OfAnOptionHasItsPathAndAReasonWithoutTheName) {
  const Error error = thrown_by([] {
    require(false, OptionName("training.warmup_steps"), "expected at least {}, found {}", 0, -1);
  });
  EXPECT_STREQ(error.what(), "warmup_steps: expected at least 0, found -1");
  EXPECT_EQ(error.option(), "training.warmup_steps");
  EXPECT_EQ(error.reason(), "expected at least 0, found -1");
  EXPECT_FALSE(error.document().has_value());
}

TEST(Error, CallsAnOptionByItsLabel) {
  const Error error = thrown_by([] {
    require(false, {Remedy::truncate}, OptionName("top_k", "top k"), "expected more, found {}", 0);
  });
  EXPECT_STREQ(error.what(), "top k: expected more, found 0");
  EXPECT_EQ(error.option(), "top_k");
  EXPECT_EQ(error.remedies(), std::vector{Remedy::truncate});
}

TEST(Error, OfAConfigurationHasTheKeyAndNoOption) {
  const Error error = thrown_by([] {
    fail(ConfigKey{"config.json", "features"}, "expected more, found {}", 0);
  });
  EXPECT_STREQ(error.what(), "config.json: features: expected more, found 0");
  EXPECT_EQ(error.key(), "features");
  EXPECT_TRUE(error.option().empty());
}

TEST(Error, OfANamelessFileIsItsReason) {
  const Error error = thrown_by([] { fail(FileName{""}, "expected text, found {}", "a picture"); });
  EXPECT_STREQ(error.what(), "expected text, found a picture");
}

TEST(Error, KeepsItsOtherFieldsWhenOneChanges) {
  ErrorParts parts = Error(ErrorParts{.subject = "stride",
                                      .reason = "expected less",
                                      .option = "stride",
                                      .document = 3,
                                      .remedies = {Remedy::split}})
                         .parts();
  parts.remedies.clear();
  const Error error(parts);
  EXPECT_STREQ(error.what(), "stride: expected less");
  EXPECT_EQ(error.option(), "stride");
  EXPECT_EQ(error.document(), 3);
  EXPECT_TRUE(error.remedies().empty());
}

}  // namespace
}  // namespace longformer::error_test
