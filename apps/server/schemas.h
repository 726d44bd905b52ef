// Schemas of members of requests, for openapi.json.
#pragma once

#include <cstdint>

#include "api.h"

namespace longformer::server {

/// A text that is not empty, and a list of such.
Json text_schema();
Json texts_schema();
/// A value of the type that may be absent or null.
Json optional_schema(const char* type);
Json optional_whole_schema(std::int64_t least);
/// A schema whose value may be absent or null.
Json optional_schema(Json schema);
/// A list of lists of a text or of a pair of texts.
Json pairs_schema();
/// Texts, ids of them, or lists of these: inputs_of().
Json inputs_schema();

/// Adds options by their descriptions.
void append_options(std::vector<ApiField>& fields, const OptionFields& options);

/// Members that many routes have.
ApiField model_field();
ApiField truncate_field();
ApiField truncation_direction_field();

}  // namespace longformer::server
