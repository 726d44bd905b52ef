// The names of the engine, which tasks use without a prefix.
#pragma once

namespace longformer::engine {}

namespace longformer::tasks {
using namespace engine;
}  // namespace longformer::tasks
