/* product_end.inl - takes back what product.inl and its kernel defined. */
#undef HYD_WARPS
#undef HYD_M
#undef HYD_N
#undef HYD_SPLIT
#undef HYD_BLOCKS
#undef HYD_LOADS
#undef HYD_FN
#undef HYD_LD
#undef HYD_OWN_N
#undef HYD_OWN_D
#undef HYD_ROWS
#undef HYD_THREADS
