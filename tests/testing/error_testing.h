// Errors in tests: one line, with the words that it must hold.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "core/error.h"

namespace longformer {

inline const char* name_of(Remedy remedy) {
  constexpr std::array kNames = {"truncate",
                                 "truncate_context",
                                 "truncate_question",
                                 "split",
                                 "pooling",
                                 "format",
                                 "text_field",
                                 "label_field",
                                 "id_field",
                                 "delimiter",
                                 "columns",
                                 "quotes",
                                 "skip_invalid",
                                 "evidence",
                                 "teacher",
                                 "adapter",
                                 "resume_or_overwrite",
                                 "fewer_checkpoints",
                                 "new_head"};
  return kNames.at(static_cast<std::size_t>(remedy));
}

/// The message of the Error that the call throws, checked to be one line, and behind it the names
/// of what would have helped, each in braces; empty when it throws none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LE(message.size(), 600u) << message;
    for (const Remedy remedy : error.remedies()) {
      message.append(" {").append(name_of(remedy)).append("}");
    }
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
