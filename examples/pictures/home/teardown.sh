cd site && creel stop --now -s docs
