// Names of models, and the addresses made of them.
#include "hub/names.h"

#include <gtest/gtest.h>

#include <string>

namespace longformer::hub::names_test {
namespace {

TEST(HubNames, Parts) {
  EXPECT_EQ(model_name("org/name").repository, "org/name");
  EXPECT_EQ(model_name("org/name").revision, "main");
  EXPECT_EQ(model_name("org/name@refs/pr/1").repository, "org/name");
  EXPECT_EQ(model_name("org/name@refs/pr/1").revision, "refs/pr/1");
  EXPECT_EQ(model_name("name@").revision, "");
}

TEST(HubNames, Repositories) {
  for (const char* name : {"org/name", "bert-base-uncased", "BAAI/bge-m3", "a/b_c.d-1"}) {
    EXPECT_TRUE(is_repository(name)) << name;
  }
  for (const char* name : {"", "/", "org/", "/name", "a/b/c", "..", "org/..", "a..b/c", "-a/b",
                           "a/b.", "org/na me", "~/x", "org/näme", "org\\name", "./x"}) {
    EXPECT_FALSE(is_repository(name)) << name;
  }
  EXPECT_TRUE(has_owner("org/name"));
  EXPECT_FALSE(has_owner("name"));
}

TEST(HubNames, Revisions) {
  for (const char* name : {"main", "v1.0", "refs/pr/1", "0123456789abcdef"}) {
    EXPECT_TRUE(is_revision(name)) << name;
  }
  for (const char* name : {"", "/etc", "..", "../x", "a/../b", "a/.", "a/"}) {
    EXPECT_FALSE(is_revision(name)) << name;
  }
  EXPECT_TRUE(is_commit(std::string(40, 'a')));
  EXPECT_FALSE(is_commit(std::string(40, 'A')));
  EXPECT_FALSE(is_commit(std::string(39, 'a')));
  EXPECT_FALSE(is_commit(std::string(40, 'g')));
}

TEST(HubNames, Files) {
  for (const char* name : {"config.json", "1_Pooling/config.json", "a b", "ä.json"}) {
    EXPECT_TRUE(is_file_name(name)) << name;
  }
  for (const std::string& name : {std::string("/etc/passwd"), std::string("../x"),
                                  std::string("a/../../x"), std::string("a//../x"), std::string(),
                                  std::string("a\\b"), std::string("a\0b", 3), std::string("a/")}) {
    EXPECT_FALSE(is_file_name(name)) << name;
  }
}

TEST(HubNames, Addresses) {
  EXPECT_EQ(in_address("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(in_address("1_Pooling/con fig?.json", true), "1_Pooling/con%20fig%3F.json");
  EXPECT_EQ(in_address("ä#&%"), "%C3%A4%23%26%25");
}

}  // namespace
}  // namespace longformer::hub::names_test
