#include "core/descriptor.h"

#include <unistd.h>

namespace longformer {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

}  // namespace longformer
