// Errors in tests: one line, with the words that it must hold.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace longformer {

/// The message of the Error that the call throws, checked to be one line; empty when it throws
/// none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LE(message.size(), 600u) << message;
    return message;
  }
  return "";
}

inline void expect_error(const std::string& message, const std::vector<std::string>& parts) {
  EXPECT_NE(message, "");
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
  }
}

}  // namespace longformer
