// Errors of the library with the flags of this program that would have helped.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "longformer/error.h"

namespace longformer::cli {

/// How verbs call TooLong::split.
constexpr std::string_view kStrideAdvice =
    "--stride N reads all in segments that overlap by N tokens";
constexpr std::string_view kSplitAdvice = "--split takes all in overlapping segments";

/// The message, and in parentheses what each remedy is called here.
std::string advised(std::string message, std::span<const Remedy> remedies,
                    std::string_view split = kStrideAdvice);

/// Advice for a caught error; for an error of another type the message alone.
std::string advised(const std::exception& error, std::string_view split = kStrideAdvice);

}  // namespace longformer::cli
