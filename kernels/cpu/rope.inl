// Rotary position embedding of one head (Su et al. 2021, arXiv:2104.09864): pair i turns by the angle whose cosine and
// sine are cos[i], sin[i]. Products are rounded before they are added, as a textbook version does.
// Pasted into the ISA units.

// Pairs (i, i + n_rot/2).
void rope_half_split(float* x, const float* cos, const float* sin, int n_rot) noexcept {
  const int half = n_rot / 2;
  float* low = x;
  float* high = x + half;
  int i = 0;
  for (; i + VecF::kLanes <= half; i += VecF::kLanes) {
    const VecF a = VecF::load(low + i), b = VecF::load(high + i), c = VecF::load(cos + i), s = VecF::load(sin + i);
    (a * c - b * s).store(low + i);
    (a * s + b * c).store(high + i);
  }
  for (; i < half; ++i) {
    const float a = low[i], b = high[i];
    low[i] = a * cos[i] - b * sin[i];
    high[i] = a * sin[i] + b * cos[i];
  }
}

// Pairs (2i, 2i + 1).
void rope_adjacent(float* x, const float* cos, const float* sin, int n_rot) noexcept {
  for (int i = 0; i < n_rot / 2; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * cos[i] - b * sin[i];
    x[2 * i + 1] = a * sin[i] + b * cos[i];
  }
}
